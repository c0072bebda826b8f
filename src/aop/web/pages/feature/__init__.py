"""Page of one feature: its review, trees, plan, evidence and history."""
