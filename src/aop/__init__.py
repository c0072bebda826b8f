"""AOP: a deterministic control plane for AI software engineers."""
