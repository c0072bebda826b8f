"""Events of forge projects over server-sent events and WebSocket, through a real `aop serve`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.mcpserver.clients import Served, served
from tests.web.forge.forge_servers import (
    EVES_KEY,
    KEY,
    NOW,
    SECONDS,
    SentEvent,
    bearer,
    connection_to,
    events,
    get,
    happen,
    put_key,
    put_project,
    raw_request,
    revoke_key,
    websocket,
)
from tests.world import World, make_repository


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("events") / "repo"))
    put_key(made, KEY)
    put_key(made, EVES_KEY, owner="eve")
    for project in ("shop", "blog"):
        put_project(made, project)
    put_project(made, "den", owner="eve")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.mark.req("FORGE-228", "FORGE-147")
def test_events_come_as_they_happen_and_only_those_of_own_projects(world: World, server: Served) -> None:
    with events(server) as mine, events(server, key=EVES_KEY) as eves:
        happen(world, "feature_created")
        happen(world, "session_set", project_id="shop", token_id="t-1")
        first = happen(world, "contract_progress", project_id="shop", contract_type="ui", turn=2, tokens=900)
        foreign = happen(world, "scout_complete", project_id="den", files=3)
        happen(world, "contract_progress", project_id="gone", turn=1)
        last = happen(world, "contracts_pinned", project_id="blog", batch=1)
        assert list(islice(mine, 2)) == [
            SentEvent(
                id=first,
                event="contract_progress",
                data={"at": NOW, "project_id": "shop", "contract_type": "ui", "turn": 2, "tokens": 900},
            ),
            SentEvent(id=last, event="contracts_pinned", data={"at": NOW, "project_id": "blog", "batch": 1}),
        ]
        assert next(eves) == SentEvent(
            id=foreign, event="scout_complete", data={"at": NOW, "project_id": "den", "files": 3}
        )


def test_a_reader_that_comes_back_misses_nothing(world: World, server: Served) -> None:
    first = happen(world, "scout_progress", project_id="shop", step="one")
    missed = [happen(world, "scout_progress", project_id="shop", step=str(step)) for step in range(450)]
    with events(server, headers={"Last-Event-ID": str(first)}) as mine:
        assert [event.id for event in islice(mine, 450)] == missed
    with websocket(server, f"/ws?after={first}") as socket:
        assert [json.loads(socket.recv(SECONDS))["id"] for _ in missed] == missed


def test_a_slow_reader_holds_up_nobody_and_gets_everything_later(world: World, server: Served) -> None:
    with events(server) as slow, websocket(server) as other:
        before = _memory(server)
        with world.app.record.write():
            sent = [
                happen(world, "scout_progress", project_id="shop", step=f"{n} " + "x" * 20_000) for n in range(4000)
            ]
        assert [json.loads(other.recv(SECONDS))["id"] for _ in sent] == sent
        # 80 MB were sent to one reader, and they do not wait in memory for the other.
        assert _memory(server) - before < 40_000
        assert [event.id for event in islice(slow, len(sent))] == sent


def _memory(server: Served) -> int:
    """Return the kilobytes that the server holds now."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def test_one_project_can_be_asked_for(world: World, server: Served) -> None:
    with events(server, "/api/events?project=blog") as mine:
        happen(world, "contracts_stored", project_id="shop", batch=2)
        wanted = happen(world, "contracts_stored", project_id="blog", batch=2)
        assert next(mine).id == wanted


def test_a_websocket_sends_the_same_events_as_json(world: World, server: Served) -> None:
    with events(server) as mine, websocket(server) as socket:
        socket.send("what is said here is not read")
        happen(world, "contract_consistency", project_id="shop", batch=1, contradictions=[{"severity": "high"}])
        sent = next(mine)
        assert json.loads(socket.recv(SECONDS)) == {"id": sent.id, "event": sent.event, "data": sent.data}


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {"Authorization": "Bearer fg_unknown"}, 401, "forge_key_invalid"),
        ("", {"Authorization": "Basic YTpi"}, 401, "forge_key_invalid"),
        ("", {"Last-Event-ID": "-1"}, 400, "invalid_arguments"),
        ("", {"Last-Event-ID": "9" * 40}, 400, "invalid_arguments"),
        ("?project=den", {}, 404, "unknown_project"),
        ("?project=none", {}, 404, "unknown_project"),
        ("", {"Host": "evil.example"}, 421, "host_not_allowed"),
        ("", {"Origin": "http://evil.example"}, 403, "origin_not_allowed"),
        ("", {"Origin": "null"}, 403, "origin_not_allowed"),
    ],
)
@pytest.mark.hostile("B11")
def test_a_stream_that_must_not_be_opened_is_refused(
    server: Served, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    response = httpx2.get(f"{server.origin}/api/events{query}", headers={**bearer(), **headers}, timeout=SECONDS)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("key", "origin", "status"),
    [("fg_unknown", None, 401), (KEY, "http://evil.example", 403), (KEY, "null", 403)],
)
@pytest.mark.hostile("B11")
def test_a_websocket_that_must_not_be_opened_is_refused(
    server: Served, key: str, origin: str | None, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused, websocket(server, key=key, origin=origin):
        pass
    assert refused.value.response.status_code == status


@pytest.mark.hostile("B01")
def test_a_websocket_by_another_name_of_this_machine_is_refused(server: Served) -> None:
    upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    line = raw_request(server, "GET /ws HTTP/1.1", "Host: evil.example", *upgrade, key, f"Authorization: Bearer {KEY}")
    assert line.startswith("HTTP/1.1 421")


def test_a_key_has_eight_streams_and_the_ninth_is_told_to_wait(world: World, server: Served) -> None:
    key = "fg_" + "many" * 10
    put_key(world, key)
    with ExitStack() as open_streams:
        for _ in range(8):
            open_streams.enter_context(websocket(server, key=key))
        response = get(server, "/api/events", key=key)
    assert (response.status_code, response.headers["retry-after"]) == (429, "5")


def test_streams_of_a_key_that_come_together_are_not_all_let_in(world: World, server: Served) -> None:
    key = "fg_" + "herd" * 10
    put_key(world, key)
    address = server.origin.removeprefix("http://")
    request = f"GET /api/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    with ExitStack() as open_streams:
        herd = [open_streams.enter_context(connection_to(server)) for _ in range(40)]
        for each in herd:
            each.sendall(request)
        statuses = [each.makefile().readline().split()[1] for each in herd]
    assert (statuses.count("200"), statuses.count("429")) == (8, 32)
    # Readers that have gone are noticed, and none is counted for good.
    lines = request.decode().split("\r\n")[:3]
    assert any(raw_request(server, *lines) == "HTTP/1.1 200 OK" for _ in range(2_000))


def test_a_revoked_key_ends_its_streams(world: World, server: Served) -> None:
    key = "fg_" + "gone" * 10
    put_key(world, key)
    with websocket(server, key=key) as socket, events(server, key=key) as mine:
        revoke_key(world, key)
        assert list(mine) == []
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


def test_streams_end_with_the_server(world: World) -> None:
    with served(world.root) as running, websocket(running) as socket, events(running) as mine:
        assert running.stop() == (0, "")
        assert list(mine) == []
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(SECONDS)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
