"""Learn: the settings of a repository, and help for people and shells."""
