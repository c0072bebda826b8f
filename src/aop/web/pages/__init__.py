"""Pages: a person's view and decisions in a browser; every fact is from a tool."""
