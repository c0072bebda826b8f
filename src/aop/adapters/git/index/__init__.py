"""Git index: its file format, and the index of a worktree."""
