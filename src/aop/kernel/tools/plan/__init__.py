"""Tools on plans: submission, collisions, locks."""
