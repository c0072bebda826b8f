"""State machine of the gated workflow: pure decisions, phase by phase."""
