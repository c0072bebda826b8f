"""Reviewing a diff: one report for tickets and for the gated workflow."""
