"""Git: the managed repository, its branches and its worktrees, through the `git` program."""
