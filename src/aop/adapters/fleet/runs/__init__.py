"""Runs of a worker, one module for each kind, and what they share."""
