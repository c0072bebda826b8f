"""Ticket runs of the platform: the queue `tickets`, and one ledger for all."""
