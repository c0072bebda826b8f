"""The outside world: one module or folder per system that AOP talks to."""
