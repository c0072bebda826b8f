"""Base branch in gates: its verdicts, and its tests on the code of a feature."""
