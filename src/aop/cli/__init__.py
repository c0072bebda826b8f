"""Command line: one module for each verb, in the groups that `aop --help` shows."""
