"""Poolers between AOP and the database, recognised before anything relies on them.

One that gives each transaction another backend loses the locks and settings of a session.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]


def is_pooled_by_transaction(connection: Connection, connect: Callable[[], Connection]) -> bool:
    """Tell whether a connection has another backend for each transaction; `connect` opens a second one, if needed."""
    own = _backend(connection)
    # Every pooler tells its clients numbers of its own.
    if own == connection.info.backend_pid:
        return False
    with closing(connect()) as other:
        other.execute("BEGIN")
        # In session mode, the second client has a backend of its own, and the first one keeps its.
        return _backend(other) == own or _backend(connection) != own


def _backend(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])
