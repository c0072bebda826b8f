"""Review pipeline: from a merge request to a report and its comments."""
