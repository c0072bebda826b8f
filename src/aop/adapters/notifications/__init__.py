"""Telling people: a bell, the desktop, a signed webhook, Slack, ntfy."""
