"""Grammars: facts from the sources of each language."""
