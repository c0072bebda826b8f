"""Crew of a build: the loops of scout, coder, auditor and fixer, and their order."""
