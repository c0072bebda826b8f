"""Contracts at the terminal: edit one, compare versions, export, pin."""
