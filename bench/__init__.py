"""Measures AOP next to raw git and raw processes, on the machine that it runs on. `make bench` runs it."""
