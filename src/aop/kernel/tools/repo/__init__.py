"""Tools on a feature's tree: reading, searching, patching."""
