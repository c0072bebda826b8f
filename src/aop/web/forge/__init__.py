"""Forge over HTTP: routes, events and keys of contract-driven builds."""
