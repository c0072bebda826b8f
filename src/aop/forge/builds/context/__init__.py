"""Context of a build: its messages, and the conversation that it keeps; pure."""
