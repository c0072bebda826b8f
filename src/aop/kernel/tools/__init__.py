"""The kernel's own tools; each module ends in the literal tuple `TOOLS`."""
