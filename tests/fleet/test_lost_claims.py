"""Lost claims: the database gives a worker a run, and the answer is lost with the connection."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer

from aop.adapters.fleet.connections import engine_address
from aop.adapters.fleet.platform_shape import APPLICATION, VERSION
from aop.adapters.fleet.worker_engine import WorkerEngine
from tests.fleet.platforms import Platform
from tests.racing import until

pytestmark = pytest.mark.fleet
CLAIM, COMMIT = re.compile(rb"UPDATE dbos.workflow_status SET [^\0]*recovery_attempts"), b"COMMIT"
"""A claim counts how often a run was begun; no other change of a run does."""


class LosingProxy:
    """Passes bytes between a worker and the database, and ends the connection instead of the answer to one claim."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.has_lost = threading.Event()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            loses = threading.Event()
            for target in (self._forth, self._back):
                threading.Thread(target=target, args=(client, server, loses), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        has_claimed = False
        while sent := _received(client):
            has_claimed |= CLAIM.search(sent) is not None
            if has_claimed and COMMIT in sent and not self.has_lost.is_set():
                loses.set()
            server.sendall(sent)
        _end(server)
        client.close()

    def _back(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        while answer := _received(server):
            if loses.is_set():
                # The database has committed, and nobody hears of it.
                self.has_lost.set()
                break
            client.sendall(answer)
        _end(client)
        server.close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


@contextmanager
def losing_proxy(url: str) -> Iterator[tuple[LosingProxy, str]]:
    """Have a proxy before the database; yield it with the address of the database through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = LosingProxy(parts.hostname, parts.port)
    threading.Thread(target=proxy.serve, daemon=True).start()
    own = proxy.listener.getsockname()[1]
    try:
        yield proxy, url.replace(f"{parts.hostname}:{parts.port}", f"127.0.0.1:{own}")
    finally:
        proxy.listener.close()


def test_a_run_whose_claim_was_committed_and_not_heard_of_is_taken_again(platform: Platform) -> None:
    client = DBOSClient(
        system_database_url=engine_address(platform.url),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
    )
    with losing_proxy(platform.url) as (proxy, url):
        engine = WorkerEngine(url, "one", ["gates"], 1, lambda: 1)
        engine.start({"gate": lambda _run, _payload: {"done": True}})
        try:
            client.enqueue(
                {"queue_name": "gates", "workflow_name": "gate", "workflow_id": "unheard", "app_version": VERSION}, {}
            )
            until(lambda: client.retrieve_workflow("unheard").get_status().status == "SUCCESS", seconds=60)
            assert proxy.has_lost.is_set()
        finally:
            engine.drain()
            engine.close()
            client.delete_workflow("unheard")
            client.destroy()
