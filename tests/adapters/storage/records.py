"""Records for tests: one on SQLite or on PostgreSQL, by an address that other processes can open too."""

from __future__ import annotations

from pathlib import Path

from aop.adapters.storage.record.moves import TABLES
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from aop.adapters.storage.record.sqlite import SqliteRecord

AnyRecord = SqliteRecord | PostgresRecord


def place(url: str, name: str) -> Place:
    """Return the place of a repository in a database."""
    return Place(url=url, name=name, home=f"here:/{name}")


def address(url: str, name: str) -> str:
    """Return the address of a record on PostgreSQL."""
    return f"{url}#{name}"


def open_at(where: str) -> AnyRecord:
    """Open the record at an address: the path of a file, or a database and the name of a repository."""
    url, _, name = where.partition("#")
    return PostgresRecord(place(url, name)) if name else SqliteRecord(Path(where))


def everything(record: AnyRecord) -> list[object]:
    """Return all that is in a record."""
    with record.statements() as sql:
        return [sql.execute(table.select).fetchall() for table in TABLES]


def tamper(record: AnyRecord, statement: str) -> None:
    """Change the tables behind AOP's back."""
    with record.statements() as sql:
        sql.execute(statement)
