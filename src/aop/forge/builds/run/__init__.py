"""Run of a build: the loop of its model, and the proof of its trees."""
