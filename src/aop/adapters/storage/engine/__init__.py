"""Durable engine: DBOS on a SQLite database."""
