"""Check: the clauses of contracts as tests of the code at a commit."""
