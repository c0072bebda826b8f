"""Supervisor: durable runs that bring features from spec to ready-to-merge."""
