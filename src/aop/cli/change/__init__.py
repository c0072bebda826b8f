"""Verbs that change a feature: undo, redo, delete."""
