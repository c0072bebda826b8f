"""Kernel: the deterministic part, which decides and never asks a model."""
