"""MCP clients: upstream servers, their operations, retries and failures."""
