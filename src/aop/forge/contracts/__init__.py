"""Contracts: the nine types, their readers, templates, and what contradicts what."""
