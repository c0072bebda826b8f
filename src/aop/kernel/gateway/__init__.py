"""Gateway: the one door for every tool call, and who may pass it."""
