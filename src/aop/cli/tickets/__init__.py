"""Verbs for tickets and the systems around them."""
