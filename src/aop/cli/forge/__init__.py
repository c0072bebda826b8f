"""Forge: from an idea or a repository to contracts, at the terminal."""
