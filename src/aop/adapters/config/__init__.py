"""Configuration files: where they are, reading them, and keeping what was parsed."""
