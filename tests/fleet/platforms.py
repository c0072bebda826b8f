"""A platform for tests: a PostgreSQL of its own, a hub, a repository, and workers as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.racing import until
from tests.world import FILES, Ran, git, make_repository, run_aop

SECONDS = 120.0


class WorkerProcess:
    """A worker of its own, with its own clone, cache and home."""

    def __init__(
        self, platform: Platform, name: str, words: Sequence[str], prefix: Sequence[str], env: Mapping[str, str]
    ) -> None:
        home = platform.folder / name
        home.mkdir(exist_ok=True)
        self.errors = home / "errors"
        self._before = self.errors.stat().st_size if self.errors.exists() else 0
        """What an earlier process of this name has said."""
        self.cache = home / ".cache/aop/worker"
        self._platform = platform
        command = [*prefix, sys.executable, "-m", "aop.cli.main", "worker", "--label", f"name={name}", *words]
        environ = {"HOME": str(home), **env}
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                command, env={**os.environ, **environ}, cwd=home, stderr=errors, stdin=subprocess.DEVNULL
            )
        self.label = name
        self.id = ""

    def await_start(self) -> None:
        until(lambda: self.process.poll() is not None or " takes " in self.said(), seconds=SECONDS)
        assert self.process.poll() is None, self.said()
        self.id = self.said().partition("Worker ")[2].split()[0]

    def said(self) -> str:
        return self.errors.read_text()[self._before :]

    def end(self) -> int:
        """End it in order; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


class Platform:
    """One database with queues, one repository that leads, one hub."""

    def __init__(self, folder: Path, url: str, files: Mapping[str, str] = FILES) -> None:
        self.folder = folder
        self.url = url
        self.root = make_repository(folder / "repo", files)
        git(folder, "clone", "-q", "--bare", str(self.root), str(folder / "hub.git"))
        self.env = {"AOP_DATABASE": url, "AOP_HUB": f"file://{folder}/hub.git", "AOP_REPOSITORY": f"shop-{folder.name}"}
        self._workers: list[WorkerProcess] = []
        made = self.aop("platform", "init", "--json")
        assert made.code == 0, made.out + made.err

    def aop(self, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        return run_aop(self.root, *words, env={**self.env, **(env or {})})

    def worker(
        self,
        name: str = "one",
        *words: str,
        prefix: Sequence[str] = (),
        url: str = "",
        waits: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        """Start a worker, and return when it takes runs."""
        made = WorkerProcess(self, name, words, prefix, {"AOP_DATABASE": url or self.url, **(env or {})})
        self._workers.append(made)
        if waits:
            made.await_start()
        return made

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the workers as `aop workers` lists them, by their label."""
        ran = self.aop("workers", "--json")
        assert ran.code == 0, ran.out
        return {row["labels"].get("name", row["id"]): row for row in ran.json["data"]["workers"]}

    def feature(self, name: str) -> None:
        self.call("feature.init", feature_id=name)

    def gates(self, name: str, mode: str = "fast", **more: object) -> Ran:
        return self.aop("call", "gates.run", json.dumps({"feature_id": name, "mode": mode, **more}))

    def started_gates(self, name: str, operation: str) -> subprocess.Popen[str]:
        """Start gates that a test disturbs."""
        words = ["call", "gates.run", json.dumps({"feature_id": name, "mode": "fast"}), "--operation-id", operation]
        return subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", *words],
            cwd=self.root,
            env={**os.environ, "USER": "ada", **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, tool: str, **arguments: object) -> Any:
        ran = self.aop("call", tool, json.dumps(arguments))
        assert ran.code == 0, ran.out + ran.err
        return ran.json["data"]

    def evidence(self, name: str) -> list[dict[str, Any]]:
        """Return the gate runs of a feature, as files have them, oldest first."""
        found = sorted(self.root.glob(f"agentic/features/{name}/evidence/*.json"))
        return sorted((json.loads(path.read_text()) for path in found), key=lambda run: str(run["started_at"]))

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def waiting(self) -> list[str]:
        """Return the runs of this repository that wait for a worker."""
        sql = "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'ENQUEUED' AND workflow_uuid LIKE %s"
        return [run for (run,) in self.rows(sql, f"{self.env['AOP_REPOSITORY']}/%")]

    def end_workers(self) -> None:
        """Kill the workers, as the next test wants others."""
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
            worker.process.wait()
        self._workers = []
        # Workers of the next test would lead what this one has left.
        self.rows("DELETE FROM fleet.repositories")
        # The next test shares the database, and one that was killed a moment ago would count as live.
        self.rows("UPDATE fleet.workers SET gone = clock_timestamp() WHERE gone IS NULL")


@contextmanager
def platform_in(folder: Path, url: str, files: Mapping[str, str] = FILES) -> Iterator[Platform]:
    """Make a platform; its workers end with it."""
    made = Platform(folder, url, files)
    try:
        yield made
    finally:
        made.end_workers()


def taker_of(platform: Platform, workers: list[WorkerProcess]) -> WorkerProcess:
    """Return the worker that has the one run."""
    found: list[WorkerProcess] = []

    def is_taken() -> bool:
        sql = "SELECT executor_id FROM dbos.workflow_status WHERE status = 'PENDING' AND workflow_uuid LIKE %s"
        ids = [row[0] for row in platform.rows(sql, f"{platform.env['AOP_REPOSITORY']}/%")]
        found[:] = [worker for worker in workers if worker.id in ids]
        return bool(found)

    until(is_taken, seconds=60)
    return found[0]


def user_of(platform: Platform, role: str) -> str:
    """Return the address of the database for a user who is a member of a role, and nothing else."""
    user = role.replace("aop_", "some_")
    if not platform.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", user):
        platform.rows(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}' IN ROLE {role}")
    return platform.url.replace("//aop:", f"//{user}:")
