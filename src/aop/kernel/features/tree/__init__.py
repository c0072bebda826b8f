"""Trees of a feature: the steps between them, and searching one."""
