"""LOCAL: a tracker, code hosting and documentation of our own, as an MCP server, for work without any account."""
