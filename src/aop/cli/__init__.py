"""The command line: one module per verb, each parses, calls the gateway, prints, and returns an exit code."""
