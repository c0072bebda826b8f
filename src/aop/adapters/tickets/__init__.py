"""Ticket systems: MCP servers behind the ports of tickets, and the ledger."""
