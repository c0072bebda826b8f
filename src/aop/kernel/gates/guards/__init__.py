"""Guards of what proves: the files and settings that decide what a gate's command does."""
