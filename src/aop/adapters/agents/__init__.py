"""Coding agents: their workers, contexts, prompts and logs."""
