"""Plans: checking a plan alone and against all others, and accepting it."""
