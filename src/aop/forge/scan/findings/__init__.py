"""Findings: metrics, checks, grade and dossier, computed from facts."""
