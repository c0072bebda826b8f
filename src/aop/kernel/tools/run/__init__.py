"""Tools of a run: its beginning, steering, usage, proposals and leftovers."""
