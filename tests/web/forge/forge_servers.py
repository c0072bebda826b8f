"""An `aop serve` with forge projects of two owners, and programs that come in with keys."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx2
import msgspec
from websockets.sync.client import ClientConnection, connect

from aop.core.ids import OperationId
from aop.forge.projects.documents import ForgeBuild, ForgeKey, ForgeProject
from aop.forge.projects.keys import key_digest, key_prefix
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Event
from tests.mcpserver.clients import Served
from tests.world import World

SECONDS = 60.0
NOW = "2026-01-02T08:00:00.000Z"
KEY = "fg_" + "mine" * 10
EVES_KEY = "fg_" + "eves" * 10


def put_key(
    world: World, text: str, *, owner: str = "local", scopes: Sequence[str] = ("read",), revoked_at: str = ""
) -> None:
    with world.app.record.write() as tx:
        tx.put(
            ForgeKey(
                version=1,
                prefix=key_prefix(text),
                sha256=key_digest(text),
                owner=owner,
                scopes=tuple(scopes),
                created_at=NOW,
                revoked_at=revoked_at,
            ),
            key_prefix(text),
        )


def revoke_key(world: World, text: str) -> None:
    with world.app.record.write() as tx:
        key = tx.get(ForgeKey, key_prefix(text))
        assert key is not None
        tx.put(revise(key, revoked_at=NOW), key.prefix)


def put_project(world: World, project_id: str, owner: str = "local") -> None:
    with world.app.record.write() as tx:
        tx.put(
            ForgeProject(
                version=1, project_id=project_id, name=project_id, owner=owner, created_at=NOW, updated_at=NOW
            ),
            project_id,
        )


def put_build(world: World, build_id: str, project_id: str, batch: int, sha256: str) -> None:
    with world.app.record.write() as tx:
        build = ForgeBuild(
            version=1, build_id=build_id, project_id=project_id, batch=batch, sha256=sha256, pinned_at=NOW
        )
        tx.put(build, build_id)


def happen(world: World, kind: str, **payload: Any) -> int:
    """Append an event to the journal, and return its number."""
    with world.app.record.write() as tx:
        return tx.append(
            Event(kind=kind, at=NOW, actor="forge", operation_id=OperationId("op-happened"), payload=payload)
        ).seq


def bearer(key: str = KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def get(server: Served, path: str, *, key: str = KEY, **headers: str) -> httpx2.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.get(server.origin + path, headers={**bearer(key), **given}, timeout=SECONDS)


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A server-sent event."""

    id: int
    event: str
    data: Any


@contextmanager
def events(
    server: Served, path: str = "/api/events", *, key: str = KEY, headers: Mapping[str, str] | None = None
) -> Iterator[Iterator[SentEvent]]:
    """Open a stream; it is connected when the block begins."""
    with httpx2.stream("GET", server.origin + path, headers={**bearer(key), **(headers or {})}, timeout=SECONDS) as it:
        assert (it.status_code, it.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = it.iter_lines()
        assert next(lines) == ": connected"
        yield _events_of(lines)


def _events_of(lines: Iterator[str]) -> Iterator[SentEvent]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield SentEvent(id=int(fields["id"]), event=fields["event"], data=json.loads(fields["data"]))
            fields = {}


def websocket(
    server: Served, path: str = "/ws", *, key: str = KEY, **options: Any
) -> AbstractContextManager[ClientConnection]:
    address = server.origin.replace("http://", "ws://") + path
    made: AbstractContextManager[ClientConnection] = connect(
        address, additional_headers=bearer(key), open_timeout=SECONDS, proxy=None, **options
    )
    return made


def connection_to(server: Served) -> socket.socket:
    """Return a connection to a server, on which nothing was sent."""
    return socket.create_connection(("127.0.0.1", int(server.origin.rpartition(":")[2])), timeout=SECONDS)


def raw_request(server: Served, *lines: str) -> str:
    """Send a request as it is written, and return the first line of the response."""
    with connection_to(server) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection.makefile().readline().strip()
