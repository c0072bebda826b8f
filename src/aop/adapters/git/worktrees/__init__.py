"""Git worktrees: registration, checkout, scan and rescue."""
