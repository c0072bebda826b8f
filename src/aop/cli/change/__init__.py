"""Verbs that change a feature: objections, take, undo, redo, rebase, delete."""
