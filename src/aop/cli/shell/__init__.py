"""Shell: what every verb shares: terminal, exit codes, parser, faults."""
