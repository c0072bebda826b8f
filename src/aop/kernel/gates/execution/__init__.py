"""Execution of gate steps: each begins on exactly the tree that it judges."""
