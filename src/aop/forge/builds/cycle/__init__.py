"""Cycle: the life of a build and its branch, from its beginning to its end."""
