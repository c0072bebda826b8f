"""The user's own checkout: how it stands to its branch, and bringing it along."""
