"""Flows: what a model may learn about an idea, or about a scanned repository."""
