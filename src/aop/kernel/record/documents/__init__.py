"""Documents: the shapes that the record stores, each with a version."""
