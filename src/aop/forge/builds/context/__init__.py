"""Context of a build: the messages that a model gets, and the conversation that it keeps; pure."""
