"""Scaffolding: from a mission to a branch, a commit and a merge request."""
