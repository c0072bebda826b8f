"""Asking a model: what is asked and answered, how far it may go, and what it costs. It reaches nothing itself."""
