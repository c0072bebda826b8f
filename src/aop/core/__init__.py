"""Words that every room shares: ids, errors, time, text formats, redaction rules. No I/O."""
