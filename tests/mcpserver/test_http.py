"""The HTTP transport of `aop serve`: origins, body sizes and address."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import httpx2
import pytest

from aop.core.roles import Role
from aop.core.version import VERSION
from aop.mcpserver.connections import HEAD_SECONDS, IDLE_SECONDS
from tests.mcpserver.clients import AOP, Served, served, token_for
from tests.world import World, make_repository, run_aop

REVISION = "2026-07-28"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("http") / "repo"))
    made.init("one")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture(scope="module")
def headers(world: World) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token_for(world, Role.QA)}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "repo.status",
    }


def request(**arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "repo.status", "arguments": {"feature_id": "one", **arguments}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def answered(response: httpx2.Response) -> Any:
    lines = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
    return json.loads(lines[-1] if lines else response.text)


def test_a_call_is_answered(server: Served, headers: dict[str, str]) -> None:
    answer = answered(httpx2.post(server.url, json=request(), headers=headers, timeout=300))
    assert answer["result"]["structuredContent"]["data"]["feature_id"] == "one"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Host", "127.0.0.1:1", 421),
        ("Host", "127.0.0.1.evil.example", 421),
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://127.0.0.1:1", 403),
        ("Origin", "null", 403),
        ("Content-Type", "text/plain", 400),
        ("Authorization", "Basic YTpi", 401),
        ("Authorization", "Bearer", 401),
    ],
)
def test_who_comes_by_another_way_is_turned_away(
    server: Served, headers: dict[str, str], header: str, value: str, status: int
) -> None:
    assert (
        httpx2.post(server.url, json=request(), headers={**headers, header: value}, timeout=300).status_code == status
    )


def test_a_page_of_this_server_itself_may_call(server: Served, headers: dict[str, str]) -> None:
    response = httpx2.post(server.url, json=request(), headers={**headers, "Origin": server.origin}, timeout=300)
    assert response.status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_more_than_four_mebibytes_are_not_read(server: Served, headers: dict[str, str], *, chunked: bool) -> None:
    body = json.dumps(request(actor_id="x" * (5 << 20))).encode()
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    assert httpx2.post(server.url, content=pieces if chunked else body, headers=headers, timeout=300).status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_refused_in_the_words_of_the_protocol(
    server: Served, headers: dict[str, str], body: bytes
) -> None:
    response = httpx2.post(server.url, content=body, headers=headers, timeout=300)
    assert (response.status_code, "Traceback" in response.text) == (400, False)


def test_its_health_is_no_secret_and_tells_none(server: Served) -> None:
    response = httpx2.get(f"{server.origin}/healthz", timeout=300)
    assert (response.status_code, response.json()) == (200, {"ok": True, "version": VERSION})


def health(client: socket.socket, request: bytes) -> bytes:
    """Ask for the health of a server; return the whole response."""
    client.sendall(request)
    response = client.recv(4096)
    while response and not response.endswith(b"}"):
        response += client.recv(4096)
    return response


@pytest.mark.slow
def test_a_connection_may_rest_between_requests_but_not_inside_one(server: Served) -> None:
    assert IDLE_SECONDS >= 60
    host, _, port = server.origin.removeprefix("http://").partition(":")
    request = f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    with socket.create_connection((host, int(port)), timeout=60) as client:
        assert health(client, request).startswith(b"HTTP/1.1 200")
        client.settimeout(2 * HEAD_SECONDS)
        with pytest.raises(TimeoutError):
            # Nothing comes, and no end either.
            client.recv(1)
        client.settimeout(60)
        assert health(client, request).startswith(b"HTTP/1.1 200")
        client.sendall(request[:8])
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


def list_at_once(world: World, clients: int) -> set[int]:
    """Have clients list the tools of a fresh server at the same moment; return how many tools they saw."""
    token = token_for(world, Role.ORCHESTRATOR)
    with served(world.root) as server, ThreadPoolExecutor(clients) as threads:
        together = Barrier(clients)

        def listed(_number: int) -> int:
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
            with httpx2.Client(headers=headers, timeout=300) as client:
                together.wait(timeout=300)
                answer = client.post(server.url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
                return len(answered(answer)["result"]["tools"])

        seen = set(threads.map(listed, range(clients)))
        assert server.stop() == (0, "")
    return seen


def test_sixteen_first_clients_list_the_tools_of_a_fresh_server_at_once(world: World) -> None:
    (seen,) = list_at_once(world, 16)
    assert seen > 20


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_sixteen_first_clients_of_two_hundred_fresh_servers(world: World) -> None:
    assert len(set.union(*(list_at_once(world, 16) for _round in range(200)))) == 1


def test_it_listens_on_this_machine_only(server: Served) -> None:
    port = int(server.origin.rpartition(":")[2])
    with socket.socket() as other:
        # The same port on another address of this machine is still free.
        other.bind(("127.0.0.2", port))


def test_a_port_that_is_taken_is_named(world: World, server: Served) -> None:
    port = server.origin.rpartition(":")[2]
    ran = run_aop(world.root, "serve", "--port", port)
    assert (ran.code, ran.out) == (2, "")
    assert f"Port {port} cannot be used." in ran.err


def test_the_address_is_the_first_line_on_standard_output(world: World) -> None:
    with subprocess.Popen([*AOP, "serve", "--port", "0"], cwd=world.root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=300) == 0
    assert (address.startswith("http://127.0.0.1:"), address.endswith("/mcp\n")) == (True, True)
