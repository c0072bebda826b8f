"""Prompts: the default instructions for each role."""
