"""Tickets: pipelines from a ticket to a merge request and to its review."""
