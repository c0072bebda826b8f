"""Git refs: branches, remotes and the notes beside ref locks."""
