"""Verbs for a person's decisions: status, inbox, review, approve, merge."""
