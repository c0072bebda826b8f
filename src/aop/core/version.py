"""Versions of AOP, and of the JSON that its commands print."""

VERSION = "0.1.0"

OUTPUT_SCHEMA = "aop/1"
"""The version of what every command prints with `--json`."""
