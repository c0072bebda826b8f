"""Verbs that let agents work: run, add, watch, pause, resume, stop, gated."""
