"""Record on SQLite: documents, journal, operations and migrations."""
