"""Pages of the past: the journal, and what is counted from it."""
