"""Verbs to start with: init, doctor, demo."""
