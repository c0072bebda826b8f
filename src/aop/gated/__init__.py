"""Gated workflow: one agent works through a plan, one judged step at a time."""
