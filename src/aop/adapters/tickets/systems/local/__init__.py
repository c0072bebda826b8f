"""Local provider: tickets, merge requests and pages without an account."""
