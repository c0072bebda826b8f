"""Gate reports: reading tests and coverage from the files that a step wrote."""
