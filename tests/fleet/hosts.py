"""Hosts for tests: network namespaces on one bridge, with PostgreSQL on the side of the bridge."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.racing import at_the_end_of_this_process

NETWORKS = "10.213"
"""Of private use; nothing outside of the bridge sees it. Each process has one of them, so that two can run at once."""


class Hosts:
    """Some hosts, each a namespace with one link to the bridge."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._tag = f"{os.getpid() % 100_000}"
        self._network = f"{NETWORKS}.{os.getpid() % 250 + 1}"
        self.address = f"{self._network}.1"

    def up(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number in range(1, self._count + 1):
            host = self._host(number)
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
            _ip("link", "add", self._link(number), "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("link", "set", self._link(number), "master", self._bridge)
            _ip("-n", host, "addr", "add", f"{self._network}.{10 + number}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            self.join(number)

    def removal(self) -> str:
        """Return the script that removes the hosts and their bridge."""
        hosts = [f"ip netns del {self._host(number)}" for number in range(1, self._count + 1)]
        return "; ".join([*hosts, f"ip link del {self._bridge}"])

    def prefix(self, number: int) -> list[str]:
        """Return the words before a command that runs on a host."""
        return ["ip", "netns", "exec", self._host(number)]

    def cut(self, number: int) -> None:
        _ip("link", "set", self._link(number), "down")

    def join(self, number: int) -> None:
        _ip("link", "set", self._link(number), "up")

    @property
    def _bridge(self) -> str:
        return f"ab{self._tag}"

    def _host(self, number: int) -> str:
        return f"aop-{self._tag}-{number}"

    def _link(self, number: int) -> str:
        return f"av{self._tag}n{number}"


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """Have hosts, or fail and say why there cannot be any."""
    made = Hosts(count)
    with at_the_end_of_this_process(made.removal()):
        try:
            made.up()
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            raise AssertionError(
                f"`make fleet` needs network namespaces (root, and `ip` of iproute2): {said.decode().strip()}"
            ) from error
        yield made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
