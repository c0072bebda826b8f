"""Platform: the queues and workers of many machines, in one database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Self

import msgspec
import psycopg
from msgspec import Struct

from aop.adapters.fleet.connections import (
    Connection,
    connect,
    engine_address,
    first_line,
    refusals_of,
    refuse_pooler,
    shown_address,
)
from aop.adapters.fleet.leads.due_repositories import NUMBERS
from aop.adapters.fleet.platform_shape import (
    APPLICATION,
    LEADS,
    MIGRATIONS,
    MOVE_TICKET_RUNS,
    QUEUES,
    ROLES,
    RUNS,
    TICKETS,
    project_queue,
)
from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.adapters.storage.record.postgres.leadership import IS_LIVING
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_database import PostgresDatabase
from aop.adapters.storage.record.postgres.postgres_shape import migrate
from aop.core.errors import (
    DatabaseNotAop,
    DatabaseRights,
    DatabaseUnavailable,
    InvalidCliArgs,
    PlatformMissing,
    RecordTooNew,
    UnknownWorker,
    WorkerVersion,
)
from aop.kernel.record.platforms import QueueRow, WorkerRow

POLL_SECONDS = 1.0
"""How often DBOS itself would look into a queue; a worker of AOP looks when it is told, and by its own clock."""
_OWNER = "Make the platform as the owner of the database."
_MIGRATING = 0x616F7002
"""The number of the advisory lock under which the platform is made."""


class RepositoryRow(Struct, frozen=True, kw_only=True):
    """A repository whose record is in the database."""

    name: str
    leader: str | None
    features: dict[str, int]
    """How many features have each status."""
    questions: int
    """How many questions are open."""


class Platform:
    """The platform in one database, over one connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.connection: Connection = connect(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.connection.close()
        if isinstance(error, psycopg.Error):
            with refusals_of(self._url):
                raise error

    def make(self, projects: Sequence[str] = ()) -> bool:
        """Make the tables and queues, or bring them up to date; tell whether anything changed.

        Tickets of the projects that are named get a queue for each project; those of earlier calls keep theirs.

        Raises: DatabaseUnavailable, PoolerUnsupported, RecordTooNew, DatabaseNotAop, DatabaseRights.
        """
        refuse_pooler(self.connection, self._url)
        if not self._number("SELECT has_database_privilege(current_database(), 'CREATE')::integer", ()):
            raise DatabaseRights("it needs CREATE on the database", hint=_OWNER)
        try:
            before = self._shape()
            if before is not None and before[0] > len(MIGRATIONS):
                raise RecordTooNew(f"The platform was made by a newer AOP: it has shape {before[0]}.", shape=before[0])
            known = self._queue_names() if before is not None else set()
            names = {*QUEUES, *map(project_queue, projects)}
            self._make_engine(names)
            self._make_record()
            with self.connection.transaction():
                self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
                self._migrate()
                self._grant()
                self.connection.execute(MOVE_TICKET_RUNS)
        except psycopg.errors.InsufficientPrivilege:
            raise
        except psycopg.Error as error:
            raise DatabaseUnavailable(shown_address(self._url), first_line(error)) from error
        return before != (len(MIGRATIONS), RUNS) or not names <= known

    def check(self) -> None:
        """Check that the platform is there, for runs of this shape. Raises: PlatformMissing, WorkerVersion."""
        shape = self._shape()
        if shape is None or shape[0] < len(MIGRATIONS):
            raise PlatformMissing(f"The database {shown_address(self._url)} has no queues for workers.")
        if shape[1] != RUNS:
            raise WorkerVersion(RUNS, shape[1])

    def check_queues(self, names: Sequence[str]) -> None:
        """Check that the platform has these queues. Raises: InvalidCliArgs."""
        known = self._queue_names()
        for name in names:
            if name != LEADS and name not in known:
                project = name.removeprefix(f"{TICKETS}/")
                hint = f"Make it, as the owner of the database: aop platform init --projects {project}"
                listed = f"There is: {', '.join(sorted([*known, LEADS]))}"
                raise InvalidCliArgs(f"There is no queue `{name}`.", hint=listed if project == name else hint)

    def check_leading(self) -> None:
        """Check that the user of the database may lead repositories. Raises: DatabaseRights."""
        row = self.connection.execute(
            "SELECT has_schema_privilege('aop', 'USAGE') AND has_table_privilege('fleet.leads', 'INSERT')"
        ).fetchone()
        if row is None or not row[0]:
            raise DatabaseRights("a worker of the queue `leads` reads and writes the record.")

    def workers(self) -> tuple[WorkerRow, ...]:
        """Return all workers, those that are gone too, oldest first."""
        rows = self.connection.execute(
            "SELECT id, host, queues, places, busy, version, labels, drains,"
            " gone IS NOT NULL OR beat < clock_timestamp() - make_interval(secs => %s),"
            " extract(epoch FROM clock_timestamp() - beat)::float8 FROM fleet.workers ORDER BY began, id",
            (DEAD_SECONDS,),
        ).fetchall()
        return tuple(_worker_row(row) for row in rows)

    def stranded(self) -> int:
        """Return how many runs wait for a shape that neither the platform nor a living worker has."""
        return self._number(
            "SELECT count(*) FROM dbos.workflow_status WHERE application_name = %s"
            " AND status IN ('ENQUEUED', 'PENDING')"
            " AND application_version <> 'runs-' || (SELECT runs FROM fleet.shape)"
            " AND application_version NOT IN (SELECT 'runs-' || runs FROM fleet.workers WHERE gone IS NULL)",
            (APPLICATION,),
        )

    def queues(self, repositories: Sequence[str] | None = None) -> tuple[QueueRow, ...]:
        """Return the queues, with how many runs wait and are active: those of some repositories alone, or all."""
        rows = self.connection.execute(
            "SELECT q.name, count(*) FILTER (WHERE s.status = 'ENQUEUED'),"
            " count(*) FILTER (WHERE s.status = 'PENDING'), coalesce(extract(epoch FROM clock_timestamp()) * 1000"
            " - min(s.created_at) FILTER (WHERE s.status = 'ENQUEUED'), 0)::float8 / 1000"
            " FROM dbos.queues q LEFT JOIN dbos.workflow_status s ON s.queue_name = q.name"
            " AND s.status IN ('ENQUEUED', 'PENDING') AND (%s::text[] IS NULL"
            " OR split_part(q.name, '/', 1) <> 'tickets'"
            " AND regexp_replace(s.workflow_uuid, '/[^/]*$', '') = ANY(%s::text[]))"
            " WHERE q.application_name = %s GROUP BY q.name ORDER BY q.name",
            (None if repositories is None else list(repositories),) * 2 + (APPLICATION,),
        ).fetchall()
        # Nothing is queued for leads: what waits is in the records, of all repositories together.
        if repositories is None:
            rows.append((LEADS, *(self.connection.execute(NUMBERS).fetchone() or (0, 0, 0))))
        return tuple(
            QueueRow(name=name, waiting=waiting, running=running, oldest_seconds=round(float(oldest), 1))
            for name, waiting, running, oldest in sorted(rows)
        )

    def repositories(self) -> tuple[RepositoryRow, ...]:
        """Return the repositories that were added or have their record in this database, with what waits there."""
        leaders = self._leaders()
        rows = self.connection.execute(
            "SELECT r.name, d.kind, d.body::json ->> 'status', count(d.key) FROM aop.repositories r"
            " LEFT JOIN aop.all_documents d ON d.repository = r.number AND (d.kind = 'feature' OR d.kind = 'question'"
            " AND d.body::json ->> 'answer' IS NULL AND coalesce(d.body::json ->> 'closed_because', '') = '')"
            " WHERE r.state = 'active' GROUP BY 1, 2, 3 UNION SELECT name, NULL, NULL, 0 FROM fleet.repositories"
            " ORDER BY 1, 2, 3"
        ).fetchall()
        found: dict[str, RepositoryRow] = {}
        for name, kind, status, number in rows:
            new = RepositoryRow(name=name, leader=leaders.get(name), features={}, questions=0)
            known = found.setdefault(name, new)
            if kind == "feature":
                known.features[status] = number
            elif kind == "question":
                found[name] = msgspec.structs.replace(known, questions=known.questions + number)
        return tuple(found.values())

    def _leaders(self) -> dict[str, str]:
        """Return the workers that lead, by repository; a leader that a person started is not among them."""
        sql = (
            "SELECT r.name, leaders.note::json ->> 'worker' FROM aop.leaders"  # noqa: S608 (constants alone)
            " JOIN aop.repositories r ON r.number = leaders.repository"
            f" WHERE leaders.note <> '' AND {IS_LIVING}"
        )
        return {name: worker for name, worker in self.connection.execute(sql).fetchall() if worker}

    def drain(self, worker: str) -> None:
        """Have a worker end when its current runs have ended. Raises: UnknownWorker."""
        done = self.connection.execute(
            "UPDATE fleet.workers SET drains = true WHERE id = %s AND gone IS NULL AND"
            " beat > clock_timestamp() - make_interval(secs => %s)",
            (worker, DEAD_SECONDS),
        )
        if done.rowcount == 0:
            raise UnknownWorker(worker)

    def _number(self, sql: str, values: Sequence[Any]) -> int:
        row = self.connection.execute(sql, values).fetchone()
        return int(row[0]) if row else 0

    def _shape(self) -> tuple[int, int] | None:
        """Return the shapes of the tables and of runs; None for a database without a platform."""
        found = self.connection.execute("SELECT to_regclass('fleet.shape') IS NOT NULL").fetchone()
        if found is None or not found[0]:
            return None
        try:
            row = self.connection.execute("SELECT shape, runs FROM fleet.shape").fetchone()
            return (int(row[0]), int(row[1])) if row else None
        except (psycopg.errors.UndefinedColumn, TypeError, ValueError) as error:
            raise DatabaseNotAop("The database has a table `fleet.shape` that AOP did not make.") from error

    def _queue_names(self) -> set[str]:
        """Return the names of the queues; nothing is queued for leads, so they have none."""
        sql = "SELECT name FROM dbos.queues WHERE application_name = %s"
        return {name for (name,) in self.connection.execute(sql, (APPLICATION,)).fetchall()}

    def _make_engine(self, queues: Collection[str]) -> None:
        """Have DBOS make its tables, and the queues, once."""
        # DBOS takes long to import, and most uses of the platform need none of it.
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

        DBOS.migrate(engine_address(self._url))
        client = DBOSClient(
            system_database_url=engine_address(self._url),
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
        )
        try:
            for name in sorted(queues):
                # Each worker has places of its own; no limit is shared, because claims in conflict slow all down.
                client.register_queue(
                    name, worker_concurrency=1, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
                )
        finally:
            client.destroy()

    def _make_record(self) -> None:
        """Make the tables of records: leaders and readers may not."""
        database = PostgresDatabase(Place(url=self._url, name="", home=""))
        try:
            with database.session() as session:
                migrate(session)
                session.commit()
        finally:
            database.close()

    def _grant(self) -> None:
        """Give each role what it needs, and nothing else; roles are made where the user may make them."""
        run = self.connection.execute
        may_make = self._number(
            "SELECT count(*) FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreaterole)", ()
        )
        for role, rights in ROLES.items():
            if not self._number("SELECT count(*) FROM pg_roles WHERE rolname = %s", (role,)):
                if not may_make:
                    continue
                run(f"CREATE ROLE {role} NOLOGIN")
            for right in rights:
                run(f"GRANT {right} TO {role}")

    def _migrate(self) -> None:
        run = self.connection.execute
        shape = self._shape()
        if shape is None:
            if self._number("SELECT count(*) FROM pg_namespace WHERE nspname = 'fleet'", ()):
                raise DatabaseNotAop("The database has a schema `fleet` that AOP did not make.")
            run("CREATE SCHEMA fleet")
            run("CREATE TABLE fleet.shape (shape integer NOT NULL, runs integer NOT NULL)")
            run("INSERT INTO fleet.shape VALUES (0, 0)")
        for script in MIGRATIONS[shape[0] if shape else 0 :]:
            run(script)
        run("UPDATE fleet.shape SET shape = %s, runs = %s", (len(MIGRATIONS), RUNS))


def _worker_row(row: Sequence[Any]) -> WorkerRow:
    name, host, queues, places, busy, version, labels, drains, gone, seen = row
    return WorkerRow(
        id=name,
        host=host,
        queues=tuple(queues),
        places=places,
        busy=0 if gone else busy,
        state="gone" if gone else "draining" if drains else "live",
        seen_seconds=round(float(seen), 1),
        version=version,
        labels=_labels_in(labels),
    )


def _labels_in(text: str) -> dict[str, str]:
    """Return the labels of a worker; none of a row that no worker has written."""
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}
