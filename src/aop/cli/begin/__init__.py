"""Verbs to begin with: init, doctor, demo."""
