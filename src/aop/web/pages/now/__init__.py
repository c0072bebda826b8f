"""Pages of the present: what waits for a person, and each feature."""
