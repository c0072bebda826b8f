"""Liveness: this worker's beats, and the judgement on workers that no longer beat.

A worker is a row that it beats by the clock of the database, and a lock of the database that ends with its session.
Dead is who has not beaten for 3 s, or for 1.8 s with a free lock. A wrong judgement costs time and nothing else: what a
worker records after it was declared dead is refused by DBOS, which no longer finds it to be the owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

import psycopg
from msgspec import Struct

from aop.adapters.fleet.connections import Connection, impatient
from aop.adapters.fleet.platform_shape import ANSWERED, APPLICATION, FORGET_RUNS, QUEUED, RUNS
from aop.adapters.fleet.rules import (
    BEAT_SECONDS,
    JUDGE_SECONDS,
    LOCK_SECONDS,
    RECONNECT_SECONDS,
    WATCH_SECONDS,
    Contact,
    is_dead,
)
from aop.adapters.processes.orphans import end_children
from aop.core.errors import WorkerIdTaken
from aop.core.version import VERSION

KEPT_SECONDS = 86_400.0
SWEEP_SECONDS = 60.0
FENCED = 75
"""The exit code of a worker that was declared dead, or had no database for too long."""
_LOCK = "hashtextextended(%s, 77)"


class WorkerIdentity(Struct, frozen=True, kw_only=True):
    """A worker as it states itself."""

    id: str
    host: str
    queues: Sequence[str]
    places: int
    labels: Mapping[str, str]


class Liveness:
    """This process among the workers. Its beats begin before the engine: a slow launch is not a death."""

    def __init__(self, url: str, identity: WorkerIdentity) -> None:
        self._url = impatient(url)
        self._identity = identity
        self._closed = threading.Event()
        self.on_queued: Callable[[str], None] = lambda _run: None
        """Told of each run that begins to wait."""
        self.on_answered: Callable[[str], None] = lambda _run: None
        """Told of each run whose call a leader has answered."""
        self.busy: Callable[[], int] = lambda: 0
        self.judges = False
        """Whether this process may judge others: only once it can take their runs itself."""
        self.forget: Callable[[Sequence[str]], None] = lambda _runs: None
        """Removes runs that ended long ago."""
        self._swept = 0.0
        self.drains = False
        self.runs = RUNS
        """The shape of the runs that this worker serves."""
        self.platform_runs: int | None = None
        """The shape of the platform's runs, if it is another one by now."""
        self.workers = 1
        """How many workers live, as of the last beat."""
        self._asked = time.monotonic()
        self._connection = self._connected()
        self._contact = Contact(self._asked)
        self._enter()

    @property
    def id(self) -> str:
        """Return the id of this worker."""
        return self._identity.id

    @property
    def password(self) -> str:
        """Return the password that opened the database, wherever the driver found it; empty if it asked for none."""
        return self._connection.info.password

    def start(self) -> None:
        """Beat, and watch the beats, from now on."""
        for target in (self._beat_on, self._watch):
            threading.Thread(target=target, name=f"aop-{target.__name__}", daemon=True).start()

    def is_cut_off(self) -> bool:
        """Tell whether what reaches the network must end now: another worker may begin it soon."""
        return self._contact.is_cut_off(time.monotonic())

    def leave(self) -> None:
        """Say that this worker ends, in order."""
        self._closed.set()
        with contextlib.suppress(psycopg.Error), psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("UPDATE fleet.workers SET gone = clock_timestamp(), busy = 0 WHERE id = %s", (self.id,))

    def _connected(self) -> Connection:
        connection = psycopg.connect(self._url, autocommit=True, application_name="aop-worker")
        # Ends with this session, and so with this process, however that ends.
        connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})", (self._identity.id,))
        for channel in (QUEUED, ANSWERED):
            connection.execute(f"LISTEN {channel}")
        return connection

    def _enter(self) -> None:
        """Write the row of this worker. Raises: WorkerIdTaken."""
        it = self._identity
        entered = self._connection.execute(
            "INSERT INTO fleet.workers (id, host, queues, places, runs, version, labels)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (it.id, it.host, list(it.queues), it.places, RUNS, VERSION, json.dumps(dict(it.labels), sort_keys=True)),
        )
        if entered.rowcount != 1:
            self._connection.close()
            raise WorkerIdTaken(it.id)

    def _beat_on(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen_until(self._asked + BEAT_SECONDS)
                self._beat()
            except psycopg.Error:
                self._reconnect()

    def _listen_until(self, moment: float) -> None:
        """Wait for the next beat; runs that begin to wait meanwhile are told of."""
        while (pause := moment - time.monotonic()) > 0 and not self._closed.is_set():
            for notice in self._connection.notifies(timeout=pause, stop_after=1):
                if notice.channel == ANSWERED:
                    self.on_answered(notice.payload)
                else:
                    queue, _, run = notice.payload.partition(" ")
                    if queue in self._identity.queues:
                        self.on_queued(run)

    def _reconnect(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()
        self._closed.wait(RECONNECT_SECONDS)
        with contextlib.suppress(psycopg.Error):
            self._connection = self._connected()
            self._contact.connected_again(time.monotonic())
            self.on_queued("")

    def _beat(self) -> None:
        self._asked = asked = time.monotonic()
        row = self._connection.execute(
            "UPDATE fleet.workers SET beat = clock_timestamp(), busy = %s WHERE id = %s AND gone IS NULL"
            " RETURNING drains, (SELECT count(*) FROM fleet.workers WHERE gone IS NULL),"
            " (SELECT runs FROM fleet.shape)",
            (self.busy(), self.id),
        ).fetchone()
        if row is None:
            if self._closed.is_set():
                return
            end_at_once("it was declared dead")
        self._contact.beat(asked)
        self.drains, self.workers = bool(row[0]), int(row[1])
        self.platform_runs = None if row[2] == RUNS else int(row[2])
        if self.judges and self._contact.may_judge(asked) and self._is_judge():
            self._judge()

    def _is_judge(self) -> bool:
        """Take or keep the place of the one judge; it is free when its holder has not asked for it in time."""
        row = self._connection.execute(
            "UPDATE fleet.judge SET worker = %s, until = clock_timestamp() + make_interval(secs => %s)"
            " WHERE worker = %s OR until < clock_timestamp() RETURNING 1",
            (self.id, JUDGE_SECONDS, self.id),
        ).fetchone()
        return row is not None

    def _judge(self) -> None:
        run = self._connection.execute
        late = run(
            "SELECT id, extract(epoch FROM clock_timestamp() - beat)::float8 FROM fleet.workers"
            " WHERE gone IS NULL AND beat < clock_timestamp() - make_interval(secs => %s)",
            (LOCK_SECONDS,),
        ).fetchall()
        dead = [name for name, silent in late if is_dead(silent, has_free_lock=partial(self._has_ended, name))]
        if dead:
            run(
                "UPDATE fleet.workers SET gone = clock_timestamp(), busy = 0 WHERE id = ANY(%s) AND gone IS NULL"
                " AND beat < clock_timestamp() - make_interval(secs => %s)",
                (dead, LOCK_SECONDS),
            )
        put_back(self._connection)
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            self._sweep()

    def _sweep(self) -> None:
        """Remove the rows of workers that are long gone, and runs whose leader did not live to remove them."""
        run = self._connection.execute
        run("DELETE FROM fleet.workers WHERE gone < clock_timestamp() - make_interval(secs => %s)", (KEPT_SECONDS,))
        old = run(
            "SELECT workflow_uuid FROM dbos.workflow_status WHERE application_name = %s"
            " AND status NOT IN ('ENQUEUED', 'PENDING', 'DELAYED')"
            " AND updated_at < (extract(epoch FROM clock_timestamp()) - %s) * 1000 LIMIT 100",
            (APPLICATION, KEPT_SECONDS),
        ).fetchall()
        runs = [name for (name,) in old]
        if runs:
            for statement in FORGET_RUNS:
                run(statement, (runs,))
            self.forget(runs)

    def _has_ended(self, worker: str) -> bool:
        row = self._connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})", (worker,)).fetchone()
        if row is None or not row[0]:
            return False
        self._connection.execute(f"SELECT pg_advisory_unlock({_LOCK})", (worker,))
        return True

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            if self._contact.is_over(time.monotonic()):
                end_at_once("it had no database for too long")


def put_back(connection: Connection) -> None:
    """Put the runs of workers that do not live back into their queues, as DBOS itself does at a restart.

    In one statement, and of all shapes: `DBOS._recover_pending_workflows` does the same for one shape, run by run.
    """
    connection.execute(
        "UPDATE dbos.workflow_status s SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL,"
        " updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        " WHERE application_name = %s AND status = 'PENDING' AND queue_name IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM fleet.workers w WHERE w.id = s.executor_id AND w.gone IS NULL)",
        (APPLICATION,),
    )


def end_at_once(why: str) -> NoReturn:
    """End this process with its children, before anything waits for a log, a pipe or a disk that may be gone."""
    with contextlib.suppress(OSError):
        end_children()
    with contextlib.suppress(OSError):
        # A process of its own says why, if that can be said: this one does not wait.
        os.posix_spawn("/bin/sh", ["sh", "-c", 'printf "%s\\n" "$1" >&2', "sh", f"aop worker: ended: {why}."], {})
    os._exit(FENCED)
