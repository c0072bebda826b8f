"""Obligations: the demands of a spec, and how a plan accounts for each."""
