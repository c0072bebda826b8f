"""Fleet: queues in PostgreSQL, the workers of other machines, and their gate runs."""
