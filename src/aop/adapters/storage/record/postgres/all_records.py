"""All records of a database, to be read: no repository is registered by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aop.adapters.storage.record.postgres.leadership import IS_LIVING
from aop.adapters.storage.record.postgres.lock_session import LockSession
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_database import PostgresDatabase, Session
from aop.adapters.storage.record.postgres.postgres_shape import MIGRATIONS
from aop.adapters.storage.record.postgres.reach.wire import Statement
from aop.adapters.storage.record.views import View
from aop.core.errors import RecordTooNew, RecordUnavailable
from aop.core.ids import OperationId
from aop.kernel.record.platforms import RecordStanding
from aop.kernel.record.port import Snapshot

READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OWN_ROWS = "SELECT set_config('aop.repository', ?, true), set_config('aop.machine', '0', true)"
_STANDINGS = f"""
    SELECT r.number, r.name, r.home, r.state = 'active',
        coalesce((SELECT max(seq) FROM aop.journals j WHERE j.repository = r.number), 0),
        coalesce((SELECT max(w.number) FROM aop.all_writes w WHERE w.repository = r.number), 0),
        CASE WHEN {IS_LIVING} THEN leaders.host END, CASE WHEN {IS_LIVING} THEN leaders.pid END
    FROM aop.repositories r LEFT JOIN aop.leaders ON leaders.repository = r.number ORDER BY r.name
"""  # noqa: S608 (constants alone)


class AllRecords:
    """Implements `aop.kernel.record.platforms.Records`; a user with the rights of a reader is enough."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(Place(url=url, name="", home=""))

    def standings(self) -> tuple[RecordStanding, ...]:
        """Return all repositories, by name. Raises: DatabaseUnavailable, RecordTooNew, RecordUnavailable."""
        with self._database.session(Statement(READ)) as session:
            if not _has_records(session):
                return ()
            return tuple(_standing(row) for row in session.execute(_STANDINGS).fetchall())

    @contextmanager
    def read(self) -> Iterator[Callable[[int], Snapshot]]:
        """Look at one consistent state of all records; what it yields returns that of a repository, by its number.

        Such a view is valid until the next one.
        """
        with self._database.session(Statement(READ), Statement("SET LOCAL search_path = aop")) as session:

            def view_of(number: int) -> Snapshot:
                session.execute(_OWN_ROWS, (number,))
                return View(session)

            yield view_of

    def is_running(self, number: int, operation_id: OperationId) -> bool:
        """Tell whether a process of a repository works on an operation."""
        return LockSession(self._database, lambda: number).is_held(f"operation {operation_id}")

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


def _has_records(session: Session) -> bool:
    row = session.execute("SELECT to_regclass('aop.shape') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return False
    shape = int(session.execute("SELECT shape FROM aop.shape").fetchall()[0][0])
    if shape > len(MIGRATIONS):
        raise RecordTooNew(f"The records were made by a newer AOP: they have shape {shape}.", shape=shape)
    if shape < len(MIGRATIONS):
        raise RecordUnavailable(
            f"The records have the older shape {shape}, which is read after it was brought up to date.",
            hint="Run `aop status` once in a repository of this database, with the rights of its owner.",
            shape=shape,
        )
    return True


def _standing(row: tuple[Any, ...]) -> RecordStanding:
    number, name, home, is_active, seq, writes, host, pid = row
    return RecordStanding(
        number=int(number),
        name=name,
        home=home,
        is_active=bool(is_active),
        seq=int(seq),
        writes=int(writes),
        leader="" if host is None else f"{host}, process {pid}",
    )
