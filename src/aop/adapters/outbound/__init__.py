"""The systems of others, spoken to through their MCP servers: one table of operations for each."""
