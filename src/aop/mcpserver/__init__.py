"""MCP server: the tool catalogue over standard streams and HTTP."""
