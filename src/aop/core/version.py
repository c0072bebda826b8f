"""Version of AOP, for packaging and the command line."""

VERSION = "0.1.0"
