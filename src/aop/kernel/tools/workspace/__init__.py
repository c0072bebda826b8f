"""Tools on the workspace of the caller: a gated workflow, or a build."""
