"""Port filter: a process reaches its TCP ports and no other network."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.adapters.processes.sandbox.landlock import Landlock
from tests.adapters.processes.steps import Steps

pytestmark = [pytest.mark.on_disk, pytest.mark.skipif(sys.platform != "linux", reason="Landlock is a part of Linux")]

ATTEMPTS = """
import socket, sys
opened, closed = map(int, sys.argv[1:])
HOST = "127.0.0.1"
FASTOPEN, MPTCP = 0x20000000, 262
def stream(protocol=0):
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
def attempt(name, do):
    try:
        do()
        print(name)
    except OSError:
        pass
attempt("open", lambda: stream().connect((HOST, opened)))
attempt("closed", lambda: stream().connect((HOST, closed)))
attempt("fast open", lambda: stream().sendto(b"x", FASTOPEN, (HOST, closed)))
attempt("fast open message", lambda: stream().sendmsg([b"x"], [], FASTOPEN, (HOST, closed)))
attempt("multipath", lambda: stream(MPTCP).connect((HOST, closed)))
attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("datagram 6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("local", lambda: socket.socket(socket.AF_UNIX))
attempt("server", lambda: stream().bind((HOST, 0)))
attempt("pair", socket.socketpair)
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> Steps:
    return Steps(tmp_path, request.param)


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        yield first.getsockname()[1], second.getsockname()[1]


def test_only_the_named_port_is_reached(steps: Steps, ports: tuple[int, int]) -> None:
    said = steps.output(sys.executable, "-c", ATTEMPTS, *map(str, ports), network="ports", ports=ports[:1])
    assert said.split("\n") == ["open", "pair", ""]


def test_the_same_attempts_succeed_where_the_network_is_open(tmp_path: Path, ports: tuple[int, int]) -> None:
    steps = Steps(tmp_path, "none")
    said = steps.output(sys.executable, "-c", ATTEMPTS, *map(str, ports), network="ports", ports=ports[:1])
    assert {"open", "closed", "datagram", "local", "server", "pair"} <= set(said.split("\n"))


def test_a_kernel_without_rules_over_ports_leaves_the_network_open_and_it_is_said_why() -> None:
    older = Landlock(abi=3, processor="x86_64")
    kept, opened = (
        older.restrictions({}, writable=(), network=network, ports=(1,) if network == "ports" else ())
        for network in ("ports", "host")
    )
    assert kept == opened
    assert not older.rules_over_ports


def test_where_they_hold_nothing_is_said(steps: Steps) -> None:
    assert steps.processes.why_ports_stay_open("auto") == ""
    assert steps.processes.why_ports_stay_open("off") == "no sandbox holds"
