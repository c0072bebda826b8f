"""Audit of a build: A0 to A9 and W1 to W3, each computed."""
