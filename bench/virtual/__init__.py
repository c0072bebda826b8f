"""A fleet in virtual time: the rules of workers, with hosts, a database and leaders that exist in memory alone."""
