"""Landlock sandbox of a gate step, for machines without namespaces.

Its rules open the same paths that bubblewrap would show. Landlock can only open: everything in an open folder is open.
So a folder with a closed part is opened part by part, and nothing new can be made in that folder itself.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.sandbox.bubblewrap import Mount
from aop.adapters.processes.sandbox.seccomp import PROCESSORS, filter_program, tcp_program
from aop.adapters.processes.toolchains import is_within

NO_PORT_RULES = "this kernel has no rules over ports, which came with Linux 6.7"
Restrictions = tuple[bytes, list[tuple[str, int]], list[int], bytes]
"""The restrictions of a step: the kernel's ruleset, rights below each path, TCP ports, and the filter."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_IOCTL_DEVICE = 1 << 15
# The first version has 13 rights over files; REFER, TRUNCATE and IOCTL_DEV came later.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READABLE = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL_DEVICE
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS, _ABSTRACT_SOCKETS_AND_SIGNALS = 0b01, 0b11

_BOUND = {"--ro-bind": False, "--ro-bind-try": False, "--bind": True, "--bind-try": True}
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Semaphores and shared memory, which many test runners need; shared with the whole machine.
_SHARED_MEMORY = "/dev/shm"

_PACKAGES = str(Path(__file__).parents[4])
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); from aop.adapters.processes.sandbox import launcher; launcher.{}()"


class Landlock(Struct, frozen=True, kw_only=True):
    """The version of Landlock in this kernel, and the processor."""

    abi: int
    processor: str

    def command(
        self,
        argv: Sequence[str],
        restrictions: Restrictions,
        *,
        env: Mapping[str, str],
        cwd: str,
        handed: InheritedDescriptors,
    ) -> list[str]:
        """Return the command that runs `argv` under these restrictions, after it has read a line."""
        step = (handed.reports_fd, (list(argv), dict(env), cwd, restrictions))
        return _launch_command("main", marshal.dumps(step), handed)

    def confining_words(self, ports: Sequence[int], handed: InheritedDescriptors) -> list[str]:
        """Return the words before a command that keep it to these TCP ports, and restrict nothing else."""
        fields = [0, _BIND_AND_CONNECT, *[_ABSTRACT_SOCKETS] * (self.abi >= _SCOPES_SINCE)]
        ruleset = struct.pack(f"={len(fields)}Q", *fields)
        restrictions: Restrictions = (ruleset, [], list(ports), tcp_program(PROCESSORS[self.processor]))
        return _launch_command("confine", marshal.dumps(restrictions), handed)

    @property
    def rules_over_ports(self) -> bool:
        """Tell whether a process can be kept to some ports."""
        return self.abi >= _TCP_SINCE

    def restrictions(
        self, view: Mapping[str, Mount], *, writable: Iterable[str], network: str, ports: Sequence[int] = ()
    ) -> Restrictions:
        """Return the restrictions that open what bubblewrap would show, and the private folders."""
        network = "host" if network == "ports" and not self.rules_over_ports else network
        handled = next(rights for since, rights in reversed(_FILE_RIGHTS.items()) if self.abi >= since)
        devices = _MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE | _IOCTL_DEVICE
        rights = {False: _READABLE, True: handled & ~devices}
        opened = [(path, rights[is_writable]) for path, is_writable in opened_paths(view)]
        opened += [(path, rights[True]) for path in (*writable, _SHARED_MEMORY)]
        opened += [("/proc", _READABLE), *((device, _DEVICE & handled) for device in _DEVICES)]
        return self._ruleset(handled, network), opened, list(ports) if network == "ports" else [], self._filter(network)

    def _ruleset(self, handled: int, network: str) -> bytes:
        tcp = 0 if network == "host" else _BIND_AND_CONNECT
        fields = [handled, *[tcp] * (self.abi >= _TCP_SINCE)]
        fields += [_ABSTRACT_SOCKETS_AND_SIGNALS] * (self.abi >= _SCOPES_SINCE)
        return struct.pack(f"={len(fields)}Q", *fields)

    def _filter(self, network: str) -> bytes:
        return filter_program(PROCESSORS[self.processor], network=network, landlock_abi=self.abi)


def _launch_command(entry: str, described: bytes, handed: InheritedDescriptors) -> list[str]:
    fd = handed.content(described)
    return [sys.executable, "-I", "-S", "-c", _LAUNCH.format(entry), _PACKAGES, str(fd)]


def opened_paths(view: Mapping[str, Mount]) -> Iterator[tuple[str, bool]]:
    """Return the paths to open, and whether for writing, as in the view."""
    opened = {place: _BOUND[m.option] for place, m in view.items() if m.option in _BOUND and m.source == place}
    closed = {place for place, mount in view.items() if _is_closed(mount)}
    closed |= {os.path.realpath(place) for place in closed}
    for path, is_writable in opened.items():
        read_only = {place for place in opened if not opened[place]} if is_writable else set()
        for part in _parts(path, [place for place in closed | read_only if place != path and is_within(place, path)]):
            yield part, is_writable


def _is_closed(mount: Mount) -> bool:
    return mount.option == "--tmpfs" or (mount.option == "--ro-bind-data" and not mount.source)


def _parts(path: str, exceptions: list[str]) -> Iterator[str]:
    """Yield the path itself or, with exceptions below it, its parts without them."""
    if not exceptions:
        yield path
        return
    with suppress(OSError):
        for name in sorted(os.listdir(path)):
            part = os.path.join(path, name)
            if part not in exceptions and not os.path.islink(part):
                yield from _parts(part, [place for place in exceptions if is_within(place, part)])
