"""Wiring: settings read once, and the adapter behind each port."""
