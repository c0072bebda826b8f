"""Features: their life cycle, their worktrees and the paths opened for them."""
