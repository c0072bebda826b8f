"""Shell: the parts that every command shares: terminal, exit codes, parser, faults."""
