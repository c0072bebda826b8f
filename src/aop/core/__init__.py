"""Core: the words that every layer shares, without input or output."""
