"""Lock session: a connection of its own, whose advisory locks end with it.

A process that dies frees its locks at once. One whose connection is lost learns it from its next change: a lock of the
session's own (its fence) is free then, and every change under a lock of that session is refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from aop.adapters.files.locks import lock_within
from aop.adapters.storage.record.postgres.postgres_database import PostgresDatabase
from aop.adapters.storage.record.postgres.reach.wire import Connection
from aop.core.digests import sha256
from aop.core.errors import RecordLost, Refusal

FENCES = 0x616F71
"""The class of the locks that tell whether a session lives; the second half is the session's number."""
SHORT_SILENCE = (
    "SET tcp_keepalives_idle = 1",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 2",
    "SET tcp_user_timeout = 3000",
)
"""A machine that is gone without a word frees its locks after some seconds."""


class LockSession:
    """The advisory locks of one process; threads exclude each other by other means before they ask for one."""

    def __init__(self, database: PostgresDatabase, repository: Callable[[], int]) -> None:
        self._database = database
        self._repository = repository
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._fence = 0
        self._own = threading.local()

    @contextmanager
    def held(self, name: str, *, wait_seconds: float, refusal: Refusal) -> Iterator[None]:
        """Hold a lock of the repository. Raises: the refusal after `wait_seconds`; DatabaseUnavailable."""
        key, got = self._key(name), list[int]()
        lock_within(lambda: self._try(key, got), wait_seconds, refusal)
        fences = (*self.fences(), got[0])
        self._own.fences = fences
        try:
            yield
        finally:
            self._own.fences = fences[:-1]
            self._unlock(key, got[0])

    def is_held(self, name: str) -> bool:
        """Tell whether any process holds a lock of the repository."""
        key = self._key(name).to_bytes(8, "big", signed=True)
        halves = int.from_bytes(key[:4], "big"), int.from_bytes(key[4:], "big")
        (found,) = self._database.answer(
            "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
            " AND classid = ?::oid AND objid = ?::oid"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
            halves,
        )
        return bool(found)

    def fences(self) -> tuple[int, ...]:
        """Return the numbers of the sessions whose locks this thread holds."""
        return getattr(self._own, "fences", ())

    def close(self) -> None:
        """Free all locks."""
        with self._guard:
            self._drop()

    def _key(self, name: str) -> int:
        return int.from_bytes(sha256(f"{self._repository()}\n{name}".encode())[:8], "big", signed=True)

    def _try(self, key: int, got: list[int]) -> bool:
        with self._guard:
            (is_ours,) = self._ask(f"SELECT pg_try_advisory_lock({key})")
            if is_ours:
                got.append(self._fence)
            return bool(is_ours)

    def _unlock(self, key: int, fence: int) -> None:
        with self._guard:
            # The locks of an earlier session ended with it.
            if self._connection is None or self._fence != fence:
                return
            try:
                self._connection.execute(f"SELECT pg_advisory_unlock({key})")
            except psycopg.Error:
                self._drop()

    def _ask(self, sql: str) -> tuple[Any, ...]:
        """Return an answer of the session, or of a new one if that was lost."""
        if self._connection is not None:
            try:
                return self._connection.execute(sql).fetchone() or ()
            except psycopg.OperationalError:
                self._drop()
        try:
            self._connection = self._opened()
            return self._connection.execute(sql).fetchone() or ()
        except psycopg.OperationalError as error:
            self._drop()
            raise RecordLost("The connection for the locks of this call was lost.") from error

    def _opened(self) -> Connection:
        connection = self._database.connected(*SHORT_SILENCE)
        self._fence = int.from_bytes(os.urandom(4), "big") >> 1
        connection.execute(f"SELECT pg_advisory_lock({FENCES}, {self._fence})")
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
