"""Adapters: the outside world, one folder for each system."""
