"""Mission: the request inside a ticket, strictly parsed."""
