"""Machine of a build: what a reply says, and what follows from it; pure."""
