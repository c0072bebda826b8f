"""Verbs for history and cleanup: logs, replay, evidence, gc, redact."""
