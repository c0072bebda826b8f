"""Configuration: shape, defaults and checks of the repository's settings."""
