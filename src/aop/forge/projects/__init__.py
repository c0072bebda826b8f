"""Projects: what the record keeps of a forge project, and who owns it."""
