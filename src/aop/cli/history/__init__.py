"""Verbs that look back and clean up: logs, replay, evidence, gc, redact."""
