"""Builds: pinned contracts become software, phase by phase, on their branch."""
