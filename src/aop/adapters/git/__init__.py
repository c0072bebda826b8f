"""Git: the repository port, from git's processes up to worktrees."""
