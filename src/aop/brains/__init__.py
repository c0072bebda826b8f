"""Brains: asking a model for an answer or a tool loop, through a port."""
