"""Forge: the parts behind generation, builds and a distant server."""
