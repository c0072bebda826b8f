"""Models of others: what they are called, where they are, and how they are talked to."""
