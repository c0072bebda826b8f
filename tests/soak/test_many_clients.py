"""Many clients at once over HTTP, while the server and they themselves are killed."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.files.locks import locked_file
from aop.core.roles import Role
from aop.kernel.record.port import JournalEntry
from tests.adapters.storage.postgres_clusters import free_port
from tests.mcpserver.clients import AOP, token_for
from tests.soak import persistent_client
from tests.world import World

SECONDS = float(os.environ.get("AOP_SOAK_SECONDS", "60"))
LONGEST_SILENCE = 300.0
"""So long nobody gets an answer only if everybody waits for everybody."""


def test_a_server_and_a_client_that_are_killed_lose_nothing_and_do_nothing_twice(world: World, tmp_path: Path) -> None:
    with trouble(world, tmp_path / "clients", clients=4) as made:
        made.await_answers(10)
        made.kill_client(0)
        made.await_answers(5)
        made.kill_server()
        made.await_answers(10)
    made.check()


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 180)
def test_sixteen_clients_lose_nothing_and_do_nothing_twice_whatever_is_killed(
    world: World, tmp_path: Path, record_property: Any
) -> None:
    chance = random.Random(20)
    deadline = time.monotonic() + SECONDS
    kills = Counter[str]()
    with trouble(world, tmp_path / "clients", clients=16) as made:
        while time.monotonic() < deadline:
            made.await_answers(chance.randint(1, 120))
            if chance.random() < 0.3:
                made.kill_server()
                kills["server"] += 1
            else:
                made.kill_client(chance.randrange(16))
                kills["client"] += 1
    answered = made.check()
    told = f"{answered} calls in {SECONDS:g} s, the server killed {kills['server']} times, clients {kills['client']}"
    record_property("soak", told)
    assert kills["server"]
    assert kills["client"]


class Trouble:
    """A server and its clients, each of which is started again when it was killed."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self._token = token_for(world, Role.ORCHESTRATOR)
        self._port = free_port()
        self._answers, self._told = os.pipe()
        with self._downtime():
            self._server = self._serving()
        self._clients: list[subprocess.Popen[bytes]] = []

    def add_clients(self, count: int) -> None:
        self._clients += [self._client(number) for number in range(len(self._clients), len(self._clients) + count)]

    def await_answers(self, count: int) -> None:
        """Wait until the clients have got so many answers more."""
        while count > 0:
            ready, _, _ = select.select([self._answers], [], [], LONGEST_SILENCE)
            assert ready, "nobody gets an answer any more"
            count -= os.read(self._answers, 4096).count(b"\n")

    def kill_server(self) -> None:
        with self._downtime():
            _kill(self._server)
            self._server = self._serving()

    def kill_client(self, number: int) -> None:
        _kill(self._clients[number])
        self._clients[number] = self._client(number)

    def let_them_finish(self) -> None:
        (self._folder / "stop").touch()
        assert [client.wait(timeout=LONGEST_SILENCE) for client in self._clients] == [0] * len(self._clients)
        self._server.terminate()
        assert self._server.wait(timeout=LONGEST_SILENCE) == 0

    def close(self) -> None:
        for process in (self._server, *self._clients):
            _kill(process)
        os.close(self._answers)
        os.close(self._told)

    def check(self) -> int:
        """Compare what the clients were told with what the record holds; return how many calls were answered."""
        done = dict(self._answered())
        with self._world.app.record.read() as view:
            assert view.pending_operations() == ()
            entries = [entry for entry in view.journal() if entry.event.kind in ("note_added", "state_patched")]
        happened: dict[str, JournalEntry] = {entry.event.operation_id: entry for entry in entries}
        assert Counter(entry.event.operation_id for entry in entries) == Counter(done.keys())
        notes = {own_id: data for own_id, data in done.items() if "seq" in data}
        assert {own_id: data["seq"] for own_id, data in notes.items()} == {own: happened[own].seq for own in notes}
        versions = sorted(data["version"] for data in done.values() if "version" in data)
        assert versions == list(range(2, len(versions) + 2))
        assert self._world.ok("feature.state_get", feature_id=persistent_client.FEATURE)["version"] == len(versions) + 1
        assert self._world.call("evidence.verify").error is None
        return len(done)

    def _answered(self) -> Iterator[tuple[str, Any]]:
        for notes in self._folder.glob("*.jsonl"):
            for line in map(json.loads, notes.read_text().splitlines()):
                if "done" in line:
                    yield line["done"], line["data"]

    def _serving(self) -> subprocess.Popen[bytes]:
        """Start the server; it listens when it says where."""
        words = [*AOP, "serve", "--port", str(self._port), "--repo", str(self._world.root)]
        server = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert server.stdout is not None
        with server.stdout as said:
            assert said.readline().decode().strip() == self._url
        return server

    def _downtime(self) -> AbstractContextManager[int]:
        """Keep the clients from trying while there is no server."""
        return locked_file(self._folder / persistent_client.DOWN)

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def _client(self, number: int) -> subprocess.Popen[bytes]:
        words = [
            sys.executable,
            persistent_client.__file__,
            self._url,
            self._token,
            f"client-{number}",
            str(self._folder),
        ]
        return subprocess.Popen(words, stdout=self._told)


@contextmanager
def trouble(world: World, folder: Path, *, clients: int) -> Iterator[Trouble]:
    """Have a server and clients; at the end they finish what they began."""
    folder.mkdir()
    world.init(persistent_client.FEATURE)
    made = Trouble(world, folder)
    try:
        made.add_clients(clients)
        yield made
        made.let_them_finish()
    finally:
        made.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
