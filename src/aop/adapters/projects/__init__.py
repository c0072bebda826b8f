"""Projects: guessing gates and layout of a repository, by language."""
