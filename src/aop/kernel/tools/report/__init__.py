"""Tools that report: the dashboard and the review of a feature."""
