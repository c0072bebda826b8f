"""Configuration: the shape, the defaults and the checks of the managed repository's settings."""
