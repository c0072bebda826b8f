"""Ticket systems: the MCP servers behind the ports of tickets, and the ledger of runs."""
