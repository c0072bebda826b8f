"""Scan of a repository: shapes of what was read, and what follows from it."""
