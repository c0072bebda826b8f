"""Tools of the broker: agents read the contracts of their project and build."""
