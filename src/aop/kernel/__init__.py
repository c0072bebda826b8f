"""The deterministic part: it decides, applies, checks and records, and never asks a model."""
