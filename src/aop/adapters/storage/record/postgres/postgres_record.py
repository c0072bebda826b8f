"""PostgreSQL record: many repositories, with one writer at a time in each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import Struct

from aop.adapters.storage.record.postgres.leadership import PostgresLeases
from aop.adapters.storage.record.postgres.lock_session import FENCES, LockSession
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_database import BEGIN, PostgresDatabase, Session
from aop.adapters.storage.record.postgres.postgres_shape import migrate
from aop.adapters.storage.record.postgres.postgres_view import CachedView, ChangeView, OpenChange
from aop.adapters.storage.record.postgres.reach.outage import Outage
from aop.adapters.storage.record.postgres.reach.wire import Statement
from aop.adapters.storage.record.writes import NO_END
from aop.core.errors import Fault, HubMissing, RecordElsewhere, RecordLost, RecordMoved, RecordUnavailable
from aop.kernel.features.tree.hub_refs import HubSweep
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction

State = Literal["arriving", "active", "moved"]
_WRITERS = 0x616F70
"""The class of the advisory locks that writers hold; the second half is the number of the repository."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OWN_ROWS = (
    "SELECT set_config('search_path', 'aop', true), set_config('aop.repository', $1, true),"
    " set_config('aop.machine', $2, true)"
)
_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
_HASTY = "SET LOCAL synchronous_commit = off"
_LOCK = f"SELECT pg_advisory_xact_lock({_WRITERS}, $1)"
"""Waiters get the lock in the order in which they came; it ends with the transaction or the connection."""
_FENCE = f"SELECT pg_try_advisory_xact_lock_shared({FENCES}, $1)"
_STATE = "SELECT state FROM aop.repositories WHERE number = $1"
_STATE_AND_ENDS = f"""
    SELECT repositories.state, entry.seq, entry.hash, link.number, link.hash,
        extract(epoch FROM clock_timestamp())::float8,
        coalesce((SELECT version FROM aop.all_documents WHERE repository = repositories.number
            AND kind = '{HubSweep.kind}' AND key = '{HubSweep.key}'), 0)
    FROM aop.repositories
    LEFT JOIN LATERAL (SELECT seq, hash FROM aop.journals WHERE repository = repositories.number
        ORDER BY seq DESC LIMIT 1) AS entry ON true
    LEFT JOIN LATERAL (SELECT number, hash FROM aop.all_writes WHERE repository = repositories.number
        ORDER BY number DESC LIMIT 1) AS link ON true
    WHERE repositories.number = $1
"""  # noqa: S608 (constants alone)
_BASES_OF_OTHERS = f"""
    SELECT DISTINCT feature.base FROM aop.repositories
    CROSS JOIN LATERAL (SELECT body::json ->> 'base_commit' AS base FROM aop.all_documents
        WHERE repository = repositories.number AND kind = '{FeatureState.kind}') AS feature
    WHERE repositories.number <> aop.own_number()
"""  # noqa: S608 (constants alone)
_NUMBER_AND_HOME = "SELECT number, home, shared FROM aop.repositories WHERE name = ?"


class _Numbers(Struct, frozen=True, kw_only=True):
    """The rows that are ours."""

    repository: int
    machine: int
    is_shared: bool


class PostgresRecord:
    """Implements `aop.kernel.record.port.Record`."""

    def __init__(
        self,
        place: Place,
        *,
        serves: State = "active",
        learn: Callable[[Iterable[str]], None] = lambda _secrets: None,
    ) -> None:
        """`learn` is told of the password that opens the database."""
        self._place = place
        self._serves = serves
        """The state in which the record may be used."""
        self._database = PostgresDatabase(place, learn)
        self._own = threading.local()
        self._numbers: _Numbers | None = None
        self.locks = LockSession(self._database, self.number)
        """The locks of the database that processes of this repository hold."""
        self.publish: Callable[[Sequence[FeatureState], int], None] = lambda _states, _sweep: None
        """Called before a change of features is committed, with what they are then, and the sweep before the change."""

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        current = self._own_change()
        if current is not None:
            yield CachedView(current.session, current.bodies)
            return
        with self._later(_READ) as session:
            yield CachedView(session)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        open_change = self._own_change()
        if open_change is not None:
            with open_change.part():
                yield ChangeView(open_change)
            return
        own = self._own_numbers()
        held = [Statement(_FENCE, (fence,)) for fence in self.locks.fences()]
        lock, asked = Statement(_LOCK, (own.repository,)), Statement(_STATE_AND_ENDS, (own.repository,))
        haste = Statement(_DURABLE if durable else _HASTY)
        with self._database.session(Statement(BEGIN), _own_rows(own), haste, lock, *held, asked) as session:
            _, entry, entry_hash, link, link_hash, seconds, sweep = self._checked(asked)
            # Nobody who has taken the lock since then can have written: that takes the lock that this change holds.
            if any(fence.row() == (True,) for fence in held):
                raise RecordLost("The connection that held the locks of this call was lost; nothing was changed.")
            change = OpenChange(
                session,
                seconds=seconds,
                journal_end=NO_END if entry is None else (entry, entry_hash),
                last_write=NO_END if link is None else (link, link_hash),
            )
            self._own.change = change
            try:
                yield ChangeView(change)
                self.publish(change.features, int(sweep))
                change.commit()
            finally:
                self._own.change = None

    @contextmanager
    def statements(self) -> Iterator[Session]:
        """Change the tables themselves, as a move does; committed at the end."""
        with self.write():
            session = self._current()
            if session is None:
                raise Fault("The record is not being written.")
            yield session

    def set_state(self, state: State) -> None:
        """Say what the record is for from now on; who opened it for something else is refused."""
        number = self.number()
        with self._database.session() as session:
            session.execute("UPDATE aop.repositories SET state = ? WHERE number = ?", (state, number))
            session.commit()
        self._serves = state

    def state(self) -> State:
        """Return what the record is for."""
        self.number()
        with self._database.session() as session:
            return self._read_state(session)

    def adopt(self) -> str:
        """Make this folder the home of the record; return the home that it had."""
        with self._database.session() as session:
            migrate(session)
            row = session.execute(_NUMBER_AND_HOME, (self._place.name,)).fetchone()
            if row is None:
                raise RecordUnavailable(f"The database has no record of `{self._place.name}`.")
            session.execute(
                "UPDATE aop.repositories SET home = ?, shared = false WHERE number = ?", (self._place.home, row[0])
            )
            session.commit()
        return str(row[1])

    @property
    def name(self) -> str:
        """Return the name of the repository in the database."""
        return self._place.name

    @property
    def is_shared(self) -> bool:
        """Tell whether other machines could work with the record when it was opened."""
        return self._own_numbers().is_shared

    def bases_of_others(self) -> frozenset[str]:
        """Return the commits that features of the other repositories in the database were cut from."""
        with self._later(_READ) as session:
            return frozenset(row[0] for row in session.execute(_BASES_OF_OTHERS).fetchall())

    def share(self) -> None:
        """Let other machines work with the record: all work is at the hub."""
        number = self.number()
        with self._database.session() as session:
            session.execute("UPDATE aop.repositories SET shared = true WHERE number = ? AND NOT shared", (number,))
            session.commit()

    def stamp(self) -> object:
        """Return a value that differs after a change: the numbers at the ends of the two chains."""
        with self._later(BEGIN) as session:
            return session.execute("SELECT (SELECT max(seq) FROM journal), (SELECT max(number) FROM writes)").fetchone()

    def close(self) -> None:
        """Close all connections."""
        self.locks.close()
        self._database.close()

    def number(self) -> int:
        """Return the number of the repository, registered at first use in a database that has the shape."""
        return self._own_numbers().repository

    def may_write(self) -> bool:
        """Tell whether the user of the database may change the record."""
        with self._database.session() as session:
            migrate(session)
            return _may_write(session)

    def leases(self) -> PostgresLeases:
        """Return the lease of the repository's supervisor."""
        return PostgresLeases(self._database, self._place.name, self._place.worker)

    def wait_out(self, outage: Outage) -> None:
        """Wait from now on for a database that is away."""
        self._database.outage = outage

    def seconds(self) -> float:
        """Return the seconds of the database's clock."""
        change = self._own_change()
        if change is not None:
            return change.seconds()
        (seconds,) = self._database.answer("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(seconds)

    def _end_sharing(self, session: Session, number: int) -> bool:
        """Keep the record for the machine that has it, while no other one has ever joined. Raises: HubMissing."""
        own = (number, self._place.home)
        others = session.execute("SELECT 1 FROM aop.machines WHERE repository = ? AND home <> ?", own).fetchone()
        ended = session.execute("UPDATE aop.repositories SET shared = false WHERE number = ? AND home = ?", own)
        if others is not None or ended.rowcount != 1:
            raise HubMissing(f"Several machines share the record of `{self._place.name}`, and no hub is set here.")
        return False

    def _own_change(self) -> OpenChange | None:
        """Return the change that this thread is making."""
        return getattr(self._own, "change", None)

    def _current(self) -> Session | None:
        """Return the session in which this thread is writing."""
        change = self._own_change()
        return None if change is None else change.session

    @contextmanager
    def _later(self, begin: str) -> Iterator[Session]:
        """Begin a transaction on our own rows together with its first statement."""
        own = self._own_numbers()
        asked = Statement(_STATE, (own.repository,))
        first = (Statement(begin), _own_rows(own), asked)
        with self._database.later_session(*first, on_begun=lambda: self._checked(asked)) as session:
            yield session

    def _checked(self, asked: Statement) -> tuple[Any, ...]:
        """Return an answer that begins with the state of the record. Raises: RecordMoved."""
        row = asked.row()
        if row is None:
            raise Fault(f"The repository `{self._place.name}` is no longer in the database.")
        self._check_state(row[0])
        return row

    def _read_state(self, session: Session) -> State:
        sql = "SELECT state FROM aop.repositories WHERE number = ?"
        row = session.execute(sql, (self.number(),)).fetchone()
        if row is None:
            raise Fault(f"The repository `{self._place.name}` is no longer in the database.")
        state: State = row[0]
        return state

    def _check_state(self, state: State) -> None:
        if state == self._serves:
            return
        if state == "moved":
            raise RecordMoved("The record of this repository was moved out of the database.")
        raise RecordMoved("The record of this repository has not arrived in the database as a whole.")

    def _own_numbers(self) -> _Numbers:
        if self._numbers is None:
            with self._database.session() as session:
                migrate(session)
                self._numbers = self._registered(session)
                session.commit()
        return self._numbers

    def _registered(self, session: Session) -> _Numbers:
        place = self._place
        known = (place.name,)
        if session.execute(_NUMBER_AND_HOME, known).fetchone() is None:
            session.execute(
                "INSERT INTO aop.repositories (name, home, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (place.name, place.home, self._serves),
            )
        ((number, home, is_shared),) = session.execute(_NUMBER_AND_HOME, known).fetchall()
        if is_shared and not place.is_shared:
            is_shared = self._end_sharing(session, number)
        if home != place.home and not is_shared:
            raise RecordElsewhere(place.name, home)
        machine = self._machine(session, number)
        return _Numbers(repository=int(number), machine=machine, is_shared=is_shared)

    def _machine(self, session: Session, number: int) -> int:
        """Return the number of this machine, which is entered if it is new; 0 for one that may only read."""
        mine = (number, self._place.home)
        sql = "SELECT number FROM aop.machines WHERE repository = ? AND home = ?"
        if session.execute(sql, mine).fetchone() is None:
            if not _may_write(session):
                return 0
            session.execute("INSERT INTO aop.machines (repository, home) VALUES (?, ?) ON CONFLICT DO NOTHING", mine)
        ((machine,),) = session.execute(sql, mine).fetchall()
        return int(machine)


def _may_write(session: Session) -> bool:
    row = session.execute("SELECT has_table_privilege('aop.machines', 'INSERT')").fetchone()
    return bool(row and row[0])


def _own_rows(own: _Numbers) -> Statement:
    """Return what makes the views show our own rows in this transaction."""
    return Statement(_OWN_ROWS, (own.repository, own.machine))
