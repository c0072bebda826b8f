"""Builds of forge: pinned contracts become software, phase by phase, on a branch of their own."""
