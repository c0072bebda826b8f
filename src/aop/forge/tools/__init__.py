"""Tools of forge: rows of the catalogue, which check the owner and commit once."""
