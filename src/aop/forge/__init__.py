"""Forge: contracts of a project, from answers or a scan, served to agents on demand."""
