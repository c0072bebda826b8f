"""Seal of a build: nine dimensions, signed, and void when their subject moved."""
