"""Pages of a platform: all repositories of one database."""
