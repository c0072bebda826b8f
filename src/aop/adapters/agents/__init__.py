"""Coding agents: their workers, surroundings, prompts and logs."""
