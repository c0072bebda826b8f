"""Directory: the repositories of the platform, each with its hub."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from msgspec import Struct

from aop.adapters.fleet.connections import Connection
from aop.adapters.fleet.platform_shape import LEADS, QUEUED
from aop.adapters.fleet.rules import DEAD_SECONDS
from aop.adapters.storage.record.postgres.leadership import IS_LIVING
from aop.core.errors import InvalidCliArgs, RepositoryBusy, RepositoryNameTaken, UnknownRepository
from aop.core.text.counts import count

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Registered(Struct, frozen=True, kw_only=True):
    """A repository of the platform."""

    name: str
    hub: str


class Directory:
    """The repositories of the platform, over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, name: str, hub: str) -> bool:
        """Enter a repository; tell whether it is new. Raises: RepositoryNameTaken, InvalidCliArgs."""
        if not NAME.fullmatch(name):
            raise InvalidCliArgs(f"No repository can be called {name[:100]!a}.", hint="Give it a name: --name NAME")
        added = self._connection.execute(
            "INSERT INTO fleet.repositories (name, hub) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1", (name, hub)
        ).fetchone()
        known = self.find(name)
        if known.hub != hub:
            raise RepositoryNameTaken(name, known.hub)
        return added is not None

    def remove(self, name: str, *, force: bool) -> None:
        """Take a repository out of the directory; its record stays. Raises: UnknownRepository; RepositoryBusy."""
        self.find(name)
        why = "" if force else self._why_busy(name)
        if why:
            raise RepositoryBusy(name, why)
        self._connection.execute("DELETE FROM fleet.repositories WHERE name = %s", (name,))

    def find(self, name: str) -> Registered:
        """Return a repository. Raises: UnknownRepository."""
        row = self._connection.execute("SELECT hub FROM fleet.repositories WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise UnknownRepository(name)
        return Registered(name=name, hub=row[0])

    def _why_busy(self, name: str) -> str:
        """Return why a repository has to stay; empty if it may go."""
        sql = (
            f"SELECT coalesce(bool_or({IS_LIVING}), false) FROM aop.leaders"  # noqa: S608 (constants alone)
            " JOIN aop.repositories r ON r.number = leaders.repository WHERE r.name = %s"
        )
        row = self._connection.execute(sql, (name,)).fetchone()
        if row is not None and row[0]:
            return "a process leads it"
        row = self._connection.execute(
            "SELECT count(*) FROM aop.all_documents d JOIN aop.repositories r ON r.number = d.repository"
            " WHERE r.name = %s AND r.state = 'active' AND d.kind = 'feature'"
            " AND d.body::json ->> 'status' NOT IN ('merged', 'failed')",
            (name,),
        ).fetchone()
        return f"it has {count(row[0], 'unfinished feature')}" if row is not None and row[0] else ""


def is_led_by_workers(connection: Connection, name: str) -> bool:
    """Tell whether a living worker would lead a repository."""
    row = connection.execute(
        "SELECT to_regclass('fleet.leads') IS NOT NULL AND has_table_privilege('fleet.repositories', 'SELECT')"
    ).fetchone()
    if row is None or not row[0]:
        return False
    found = connection.execute(
        "SELECT 1 FROM fleet.repositories r, fleet.workers w WHERE r.name = %s AND %s = ANY(w.queues)"
        " AND w.gone IS NULL AND NOT w.drains AND w.beat > clock_timestamp() - make_interval(secs => %s) LIMIT 1",
        (name, LEADS, DEAD_SECONDS),
    )
    return found.fetchone() is not None


def tell_leads(connection: Connection) -> None:
    """Tell the workers that a repository needs a leader."""
    connection.execute("SELECT pg_notify(%s, %s)", (QUEUED, LEADS))


def name_in(hub: str) -> str:
    """Return the name that a repository has by its hub: the last part of the address, without `.git`."""
    return PurePosixPath(hub.rpartition(":")[2].rstrip("/")).name.removesuffix(".git")
