"""Ticket runs: started by a person or a webhook, and taken to their end."""
