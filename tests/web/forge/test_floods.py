"""Clients that flood `aop serve`, lie about lengths or never finish: the server answers everybody else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from aop.mcpserver.connections import MOST_CONNECTIONS
from tests.mcpserver.clients import Served, served
from tests.web.forge.forge_servers import KEY, connection_to, get, put_key, put_project
from tests.world import World, make_repository


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    world = World(make_repository(tmp_path_factory.mktemp("floods") / "repo"))
    put_key(world, KEY, scopes=("read", "write", "keys"))
    put_project(world, "shop")
    with served(world.root) as running:
        yield running
    world.close()


def answers(server: Served) -> bool:
    return get(server, "/api/projects/shop/contracts").status_code == 200


def said(connection: socket.socket) -> str:
    """Return the first line of a response; empty if the server closes the connection instead."""
    try:
        return connection.makefile("r", encoding="latin-1").readline().strip()
    except ConnectionResetError:
        return ""


def head_of(server: Served, *lines: str) -> bytes:
    address, key = server.origin.removeprefix("http://"), f"Authorization: Bearer {KEY}"
    return "\r\n".join([f"POST /auth/forge-keys HTTP/1.1\r\nHost: {address}\r\n{key}", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        ([f"X-Large: {'x' * 200_000}"], b"", "400"),
        ([f"X-{number}: {'y' * 50}" for number in range(3_000)], b"", "400"),
        (["Content-Length: 2", "Content-Length: 3"], b"{}", "400"),
        (["Content-Length: -1"], b"{}", "400"),
        (["Content-Length: 1e3"], b"{}", "400"),
        (["Content-Length: 99999999999999999999999"], b"{}", "400"),
        (["Content-Length: 200000"], b" " * 200_000, "400"),
        (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n", "400"),
        (["Transfer-Encoding: chunked"], b"zz\r\n", "400"),
        (["Content-Length: 2", "Content-Type: text/plain"], b"{}", "415"),
        (["Content-Length: 20"], b"[" * 20, "400"),
        ([], b"", "201"),
    ],
)
def test_a_request_that_lies_about_its_size_is_refused(
    server: Served, lines: list[str], body: bytes, status: str
) -> None:
    with connection_to(server) as connection:
        with suppress(OSError):  # the server need not read all of it
            connection.sendall(head_of(server, *lines) + body)
            connection.shutdown(socket.SHUT_WR)
        assert said(connection).split(" ")[1:2] in ([status], [])
    assert answers(server)


@pytest.mark.parametrize("beginning", [b"", b"GET /api/proj", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_client_that_never_ends_the_head_of_a_request_is_dropped(server: Served, beginning: bytes) -> None:
    with connection_to(server) as connection:
        connection.sendall(beginning)
        assert said(connection) == ""
    assert answers(server)


def test_a_body_that_does_not_arrive_is_refused_in_time(server: Served) -> None:
    with connection_to(server) as connection:
        connection.sendall(head_of(server, "Content-Length: 20") + b"{")
        assert said(connection) == "HTTP/1.1 400 Bad Request"


def test_a_flood_of_connections_takes_no_place_for_good(server: Served) -> None:
    with ExitStack() as flood:
        idle = [flood.enter_context(connection_to(server)) for _ in range(MOST_CONNECTIONS + 50)]
        # Those beyond the number are dropped at once, the others when they have said nothing for too long.
        assert [said(each) for each in idle] == [""] * len(idle)
        assert answers(server)


def test_a_client_that_keeps_its_connection_is_not_dropped_between_requests(server: Served) -> None:
    address = server.origin.removeprefix("http://")
    with connection_to(server) as connection:
        stream = connection.makefile("rb")
        for _ in range(3):
            connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            lines = iter(stream.readline, b"\r\n")
            head = [line.decode().strip() for line in lines]
            assert head[0] == "HTTP/1.1 200 OK"
            size = next(line.partition(": ")[2] for line in head if line.lower().startswith("content-length"))
            stream.read(int(size))


def test_a_server_with_an_unfinished_request_stops(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    put_key(world, KEY, scopes=("read",))
    with served(world.root) as running, connection_to(running) as idle, connection_to(running) as half:
        half.sendall(b"POST /mcp HTTP/1.1\r\nContent-Le")
        assert running.stop() == (0, "")
        assert (said(idle), said(half)) == ("", "")
    world.close()
