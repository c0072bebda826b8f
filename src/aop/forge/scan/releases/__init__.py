"""Releases: comparing versions, and when support for them ends."""
