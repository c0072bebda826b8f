"""Diff of a feature as the pages draw it: files, rows, colours and changed words."""
