"""Dialogue of a build with people: its questions, and the notes of its user."""
