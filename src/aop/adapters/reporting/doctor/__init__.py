"""Doctor: checks of machine, repository, agents and ticket systems."""
