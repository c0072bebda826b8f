"""Tools on a feature's life: init, state, specs, merge, undo, delete."""
