"""Storage: the SQLite databases behind the record and the engine."""
