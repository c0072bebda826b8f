"""Choice of the record: SQLite in the repository, or PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.sqlite import SqliteRecord, open_to_read
from aop.core.errors import DatabaseUnavailable, RecordMoved, RecordNotMoved
from aop.kernel.record.port import Record

DATABASE = "AOP_DATABASE"
REPOSITORY = "AOP_REPOSITORY"
HUB = "AOP_HUB"
WORKER = "AOP_WORKER"
"""The worker that started this process to lead a repository."""
RECORD = ".aop/record.db"
SCHEMES = ("postgresql", "postgres")
_PASSWORD = "PGPASSWORD"
_OPENERS = (DATABASE, _PASSWORD, "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY")
"""The variables that hold or name what opens the database."""


class OpenRecord(Record, Protocol):
    """A record that has to be closed."""

    def stamp(self) -> object:
        """Return a value that differs after a change; cheaper than a read."""

    def close(self) -> None:
        """Let go of the database."""


def place_of(root: Path, environ: Mapping[str, str]) -> Place | None:
    """Return the database that the settings name for a repository; None for SQLite. Raises: DatabaseUnavailable.

    Where AOP runs inside a gate or a turn, the variable holds a plain name, for the feature's own use.
    """
    url = environ.get(DATABASE, "")
    return place_at(url, root, environ) if "://" in url else None


def place_at(url: str, root: Path, environ: Mapping[str, str]) -> Place:
    """Return the place of a repository's record in a database. Raises: DatabaseUnavailable."""
    if url.partition("://")[0] not in SCHEMES:
        raise DatabaseUnavailable("in AOP_DATABASE", "the address does not begin with postgresql://")
    name = repository_name(root, environ)
    home = f"{os.uname().nodename}:{root}"
    return Place(url=url, name=name, home=home, is_shared=bool(environ.get(HUB)), worker=environ.get(WORKER, ""))


def repository_name(root: Path, environ: Mapping[str, str]) -> str:
    """Return the name of a repository beside others: the one that the settings give it, or that of its folder."""
    return environ.get(REPOSITORY) or root.name


def open_record(
    root: Path, place: Place | None, *, to_read: bool, learn: Callable[[Iterable[str]], None] = lambda _secrets: None
) -> tuple[OpenRecord, bool]:
    """Open the record of a repository, and tell whether it is a copy. Raises: RecordUnavailable, RecordNotMoved.

    `learn` is told of the password that opens a database, wherever that was found.
    """
    path = root / RECORD
    if place is None:
        return open_to_read(path) if to_read else (SqliteRecord(path), False)
    if os.path.lexists(path) and not is_moved(path):
        raise RecordNotMoved(place.shown)
    # A record on SQLite pays nothing for this.
    from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord

    record = PostgresRecord(place, learn=learn)
    return record, to_read and not record.may_write()


def is_moved(path: Path) -> bool:
    """Tell whether a SQLite record was moved away."""
    record = SqliteRecord(path)
    try:
        with record.read():
            return False
    except RecordMoved:
        return True
    finally:
        record.close()


def without_database(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no step, no agent and no git sees what opens the database."""
    return {name: value for name, value in environ.items() if name not in _OPENERS}


def database_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the passwords of the database that an environment holds."""
    return (*secrets_in(environ.get(DATABASE, "")), *filter(None, [environ.get(_PASSWORD)]))


def secrets_in(url: str) -> tuple[str, ...]:
    """Return the passwords in an address: that of the user, and those among its options."""
    if not url:
        return ()
    # A record on SQLite pays nothing for this.
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
        options = [value for name, value in parse_qsl(parts.query) if "password" in name]
    except ValueError:
        return (url,)
    return tuple(filter(None, (unquote(parts.password or ""), *options)))
