"""Trials of proposed gates on the base commit, and the cures of what is red."""
