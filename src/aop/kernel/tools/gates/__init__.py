"""Tools on gates: running them, their status, QA index and evidence."""
