"""Paths: names inside a repository, and the patterns that match them."""
