"""Gates: which steps prove a tree, and running them."""
