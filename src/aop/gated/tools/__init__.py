"""Tools of the gated workflow, for the agent and for the person who steers it."""
