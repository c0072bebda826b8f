"""Forge API: the projects and contracts of another AOP, read over HTTP with a key."""
