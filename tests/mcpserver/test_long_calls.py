"""Long calls: progress, clients that disconnect, and calls that are never done twice."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from aop.core.roles import Role
from aop.wiring.build import make_ready_for_threads
from tests.kernel.tools.worlds import configured, events, gates_of, patch_of, step
from tests.mcpserver.clients import Mcp, Served, over_http, over_stdio, served, token_for
from tests.racing import until
from tests.world import World, files, plan_for

WAITING_GATE = gates_of(fast=step("touch started; until [ -e go ]; do sleep 0.02; done"))
RUN = {"feature_id": "one", "mode": "fast"}
DOORS = ("stdio", "http")


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[World]:
    """A feature whose fast gates wait for a file `go` in its worktree."""
    world = configured(tmp_path / "repo", gates=WAITING_GATE)
    world.plan()
    yield world
    world.close()


@pytest.fixture
def server(waiting: World) -> Iterator[Served]:
    with served(waiting.root) as running:
        yield running


@pytest.fixture(params=DOORS)
def client(request: pytest.FixtureRequest, waiting: World) -> Iterator[Mcp]:
    token = token_for(waiting, Role.BUILDER, "one")
    with ExitStack() as stack:
        if request.param == "stdio":
            yield stack.enter_context(over_stdio(waiting.root, token))
        else:
            yield stack.enter_context(over_http(stack.enter_context(served(waiting.root)).url, token))


def begun(world: World, client: Mcp, **arguments: Any) -> Future[Any]:
    """Start the gates; return when they run."""
    call = client.portal.start_task_soon(client._call, "gates.run", {**RUN, **arguments}, {})
    until((world.root / ".worktrees/one/started").exists)
    return call


def let_go(world: World) -> None:
    (world.root / ".worktrees/one/go").touch()


def test_the_client_hears_how_far_the_gates_are(waiting: World, client: Mcp) -> None:
    call = begun(waiting, client)
    let_go(waiting)
    assert call.result(timeout=300).is_error is False
    assert client.progress == ["one: fast gates, step 1 of 1: check"]


@pytest.mark.req("AOP-326")
def test_a_client_that_stops_waiting_gets_the_one_answer_when_it_asks_again(waiting: World, client: Mcp) -> None:
    begun(waiting, client, operation_id="run-1").cancel()
    again = client.portal.start_task_soon(client._call, "gates.run", {**RUN, "operation_id": "run-1"}, {})
    let_go(waiting)
    assert again.result(timeout=300).structured_content["data"]["verdict"] == "pass"
    assert client.call("gates.run", RUN, operation_id="run-1").structured == again.result().structured_content
    assert events(waiting).count("gates_ran") == 1


@pytest.mark.parametrize("how", DOORS)
def test_gates_run_to_their_end_although_the_client_is_gone_and_no_line_tells_of_it(waiting: World, how: str) -> None:
    token, file = token_for(waiting, Role.BUILDER, "one"), waiting.root.parent / "said"
    with served(waiting.root) as server, file.open("w") as said:
        with over_http(server.url, token) if how == "http" else over_stdio(waiting.root, token, said=said) as client:
            begun(waiting, client).cancel()
            let_go(waiting)
        until(lambda: "gates_ran" in events(waiting))
        assert (server.stop(), file.read_text()) == ((0, ""), "")


def test_a_server_that_is_stopped_lets_running_calls_end_and_takes_no_new_ones(waiting: World, server: Served) -> None:
    token = token_for(waiting, Role.BUILDER, "one")
    with over_http(server.url, token) as client:
        # The client wants the schemas when it gets the answer; then it is too late to ask for them.
        client.tools()
        call = begun(waiting, client)
        server.process.terminate()
        with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=300) as late:
            until(lambda: late.post(server.url, json={}).status_code == 503)
            refused = late.post(server.url, json={})
        assert (refused.json()["error"]["code"], refused.headers["retry-after"]) == ("server_stopping", "5")
        let_go(waiting)
        assert call.result(timeout=300).structured_content["data"]["verdict"] == "pass"
    assert (server.process.wait(timeout=300), events(waiting).count("gates_ran")) == (0, 1)


def test_an_idle_server_stops_at_once_and_has_nothing_to_say(server: Served) -> None:
    assert httpx2.get(f"{server.origin}/healthz", timeout=300).json()["ok"] is True
    assert server.stop() == (0, "")


# --- an operation id -----------------------------------------------------------------------------


@pytest.mark.req("AOP-326")
def test_the_same_operation_is_done_once_however_its_id_is_sent(world: World) -> None:
    with over_stdio(world.root, token_for(world, Role.ORCHESTRATOR)) as client:
        first = client.call("feature.init", {"feature_id": "one"}, operation_id="op-1")
        again = client.call("feature.init", {"feature_id": "one", "operation_id": "op-1"})
        other = client.call("feature.init", {"feature_id": "two", "operation_id": "op-1"})
        both = client.call("feature.init", {"feature_id": "one", "operation_id": "op-2"}, operation_id="op-1")
    assert (first.data["created"], again.structured) == (True, first.structured)
    assert (other.code, both.code) == ("idempotency_mismatch", "invalid_arguments")
    assert events(world).count("feature_initialised") == 1


# --- many at once --------------------------------------------------------------------------------


def one_life(url: str, tokens: Mapping[Role, str], name: str) -> list[str | None]:
    """Take a feature from nothing to `ready_to_merge`, looking at it all the time; return how each call ended."""
    plan = plan_for(name, allowed_areas=[f"src/{name}"], files=files(create=(f"src/{name}/a.txt",)))
    steps: list[tuple[Role, str, dict[str, Any]]] = [
        (Role.ORCHESTRATOR, "feature.init", {}),
        (Role.ORCHESTRATOR, "plan.submit", {"plan_json": plan}),
        (Role.BUILDER, "repo.apply_patch", {"unified_diff": patch_of(f"src/{name}/a.txt", "x")}),
        (Role.BUILDER, "gates.run", {"mode": "fast"}),
        (Role.BUILDER, "gates.run", {"mode": "full"}),
        (Role.BUILDER, "report.feature_summary", {}),
    ]
    with over_http(url, tokens[Role.ORCHESTRATOR]) as orchestrator, over_http(url, tokens[Role.BUILDER]) as builder:
        clients = {Role.ORCHESTRATOR: orchestrator, Role.BUILDER: builder}
        codes = []
        for role, tool, arguments in steps:
            codes.append(clients[role].call(tool, {"feature_id": name, **arguments}).code)
            codes += [clients[role].call(tool, {"feature_id": name}).code for tool in ("repo.status", "repo.diff")]
        return codes


@pytest.mark.slow
def test_sixteen_features_at_once_go_all_the_way_through_one_server(world: World) -> None:
    names = [f"f{number:02}" for number in range(16)]
    tokens = {role: token_for(world, role) for role in (Role.ORCHESTRATOR, Role.BUILDER)}
    with served(world.root) as server, ThreadPoolExecutor(16) as threads:
        lives = [threads.submit(one_life, server.url, tokens, name) for name in names]
        wait(lives)
        # First what the server says of a breakage; the clients are told a reference alone.
        assert server.stop() == (0, "")
        assert [life.result() for life in lives] == [[None] * 18] * 16
    rows = world.ok("report.dashboard")["features"]
    assert [(row["feature_id"], row["status"]) for row in rows] == [(name, "ready_to_merge") for name in names]


def test_one_gateway_serves_sixteen_threads(world: World) -> None:
    names = [f"f{number:02}" for number in range(16)]

    def life(name: str) -> list[str | None]:
        calls = [world.call("feature.init", feature_id=name), world.call("repo.status", feature_id=name)]
        calls += [world.call("feature.state_get", feature_id=name), world.call("report.dashboard")]
        return [None if answer.error is None else str(answer.error["code"]) for answer in calls]

    make_ready_for_threads()
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(life, names)) == [[None] * 4] * 16
    with world.app.record.read() as view:
        assert [entry.seq for entry in view.journal()] == list(range(1, 17))


# --- breakage ------------------------------------------------------------------------------------


def test_a_breakage_is_a_reference_for_the_client_and_a_traceback_for_the_log(world: World) -> None:
    world.init("one")
    with served(world.root) as server:
        with sqlite3.connect(world.root / ".aop/record.db") as record:
            record.execute("UPDATE documents SET body = '{}' WHERE kind = 'feature'")
        record.close()
        with over_http(server.url, token_for(world, Role.QA)) as client:
            answer = client.call("feature.state_get", {"feature_id": "one"})
        _, log = server.stop()
    reference = answer.error["error"]["details"]["reference"]
    assert (answer.code, answer.structured) == ("internal_error", None)
    assert answer.error["error"]["message"] == f"AOP broke while doing this; reference `{reference}`."
    assert not any(word in answer.text for word in ("Traceback", str(world.root), ".py"))
    assert log.startswith(f"{reference}: Traceback (most recent call last):\n")


def test_who_somebody_is_may_break_too(world: World) -> None:
    with over_stdio(world.root, token_for(world, Role.QA)) as client:
        client.tools()
        with sqlite3.connect(world.root / ".aop/record.db") as record:
            record.execute("UPDATE documents SET body = '{}' WHERE kind = 'token'")
        record.close()
        answer = client.call("report.dashboard")
        with pytest.raises(MCPError) as refused:
            client.tools()
    assert (answer.code, str(world.root) in answer.text) == ("internal_error", False)
    assert str(refused.value).startswith("internal_error: AOP broke while doing this; reference ")


@pytest.mark.req("AOP-326")
def test_a_run_is_found_again_while_it_runs_and_afterwards(waiting: World, client: Mcp) -> None:
    asked = {"feature_id": "one", "operation_id": "run-1"}
    run = begun(waiting, client, operation_id="run-1")
    seen = client.call("gates.status", asked).data
    assert (seen["state"], seen["progress"]) == ("running", ["one: fast gates, step 1 of 1: check"])
    let_go(waiting)
    answer = run.result(timeout=300).structured_content
    assert client.call("gates.status", asked).data["answer"] == answer


def test_clients_that_neither_send_nor_read_do_not_hold_up_the_end(waiting: World, server: Served) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {server.origin.removeprefix('http://')}",
        f"Authorization: Bearer {token_for(waiting, Role.BUILDER, 'one')}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
    ]
    head = "\r\n".join([*lines, "", ""]).encode()
    with socket.socket() as unsent, socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        for client in (unsent, unread):
            client.connect(("127.0.0.1", int(server.origin.rpartition(":")[2])))
        unsent.sendall(head + body[:20])
        # More answers than any buffer holds.
        unread.sendall((head + body) * 100)
        assert unread.recv(12) == b"HTTP/1.1 200"
        assert server.stop()[0] == 0
