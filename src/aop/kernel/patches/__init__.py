"""Patches: parsing a diff, placing its hunks, and checking the tree it makes."""
