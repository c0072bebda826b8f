"""Reach of the database: what lies between a process and PostgreSQL."""
