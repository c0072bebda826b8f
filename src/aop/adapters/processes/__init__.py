"""Processes: running a command within limits, its log and its cleanup."""
