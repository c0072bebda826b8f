"""Record on PostgreSQL: one database for many repositories."""
