"""The record on SQLite: its schema, its migrations, and the port's implementation."""
