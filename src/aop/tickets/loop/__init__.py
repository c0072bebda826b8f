"""Agentic loop: a model works on a mission with a fixed set of tools."""
