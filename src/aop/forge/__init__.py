"""Forge: contracts from answers or a scan, served to agents on demand."""
