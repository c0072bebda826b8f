"""Text formats: JSON, YAML, front matter, and text made safe to show."""
