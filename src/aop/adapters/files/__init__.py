"""Files: whole-or-absent writes, file locks and the signing key."""
