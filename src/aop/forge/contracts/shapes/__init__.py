"""Shapes: one strict reader for each kind of contract text."""
