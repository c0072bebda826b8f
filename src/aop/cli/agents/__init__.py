"""Verbs for agents, models, tokens, MCP and tools."""
