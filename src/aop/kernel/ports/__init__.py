"""Ports: the protocols through which the kernel reaches git, processes and files."""
