"""Guards of the proof: files and settings that decide what a gate does."""
