"""Workers: one module for each way to drive a coding agent."""
