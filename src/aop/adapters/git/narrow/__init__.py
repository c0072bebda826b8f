"""Narrow git directories: what one feature and its base reach, nothing else."""
