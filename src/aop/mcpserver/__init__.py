"""The catalogue as MCP tools, over standard streams and HTTP. No rules of its own."""
