"""SQL port: the statements of the record, run by SQLite or by PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Rows(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int:
        """Return how many rows the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Return the rows that are left, one after the other."""


class Sql(Protocol):
    """A connection inside a transaction; `?` stands for a value."""

    def execute(self, sql: str, values: Any = ..., /) -> Rows:
        """Run a statement."""

    def executemany(self, sql: str, rows: Any, /) -> object:
        """Run a statement for each row of values."""
