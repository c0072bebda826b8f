"""Session: one call's unit of work on one gated workflow."""
