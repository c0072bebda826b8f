"""Place of a record: a database, and the repository in it."""

from __future__ import annotations

from msgspec import Struct


class Place(Struct, frozen=True, kw_only=True):
    """A database, and the repository whose record is in it."""

    url: str
    name: str
    """The name of the repository, unique in the database."""
    home: str
    """The machine and the folder that have the worktrees and the files that show the record."""

    is_shared: bool = False
    """Whether this machine has the hub through which several machines have each other's work."""

    worker: str = ""
    """The worker that leads the repository here; empty where a person does."""

    @property
    def shown(self) -> str:
        """Return the address without user, password and options."""
        # A record on SQLite pays nothing for this.
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(self.url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return "in AOP_DATABASE"
        return f"postgresql://{parts.hostname or 'localhost'}{port}{parts.path}"
