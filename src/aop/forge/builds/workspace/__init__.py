"""Workspace of a build: judged writes, commands, the shown contracts, exclusion."""
