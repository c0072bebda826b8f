"""Deep scan: sources, manifests and lock files of a commit, read through git."""
