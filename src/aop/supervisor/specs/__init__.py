"""Specs: the features that spec files ask for, and their order."""
