"""Tools of the kernel, one folder for each prefix of a tool's name."""
