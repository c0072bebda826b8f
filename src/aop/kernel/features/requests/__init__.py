"""Requests of people to change a feature, from a draft to the worker's answer."""
