"""Imports: the file behind each one, cycles, and layers."""
