"""Verbs that change a feature: request-changes, reject, undo, redo, delete."""
