"""Gateway: the one entry point for every tool call."""
