"""Git objects: reading and writing blobs, trees, merges."""
