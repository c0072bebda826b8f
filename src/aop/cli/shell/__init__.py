"""Shell: the parts that all commands share: terminal, exit codes, parser, faults."""
