"""Models: the endpoints behind the brain port, their prices and failures."""
