"""Port proof: a process in bubblewrap that tries other TCP ports than its own."""

from __future__ import annotations

import socket
import subprocess
import sys

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.sandbox.bubblewrap import Bubblewrap, FailedProof, system_view
from aop.adapters.processes.sandbox.landlock import NO_PORT_RULES, Landlock
from aop.adapters.processes.sandbox.landlock_proof import PROBE_SECONDS, kernel_landlock, python_view

# Each line is printed if the attempt before it succeeds.
_PROBE = """
import _socket, sys
def attempt(name, function, *arguments):
    try:
        function(*arguments)
        print(name)
    except OSError:
        pass
def connect(port):
    _socket.socket(_socket.AF_INET).connect(("127.0.0.1", int(port)))
attempt("open", connect, sys.argv[1])
attempt("closed", connect, sys.argv[2])
attempt("datagram", _socket.socket, _socket.AF_INET, _socket.SOCK_DGRAM)
attempt("local", _socket.socket, _socket.AF_UNIX)
"""


def prove_ports(bubblewrap: Bubblewrap) -> Landlock | FailedProof:
    """Return the Landlock that keeps a process in this sandbox to some ports."""
    landlock = kernel_landlock()
    if isinstance(landlock, FailedProof) or not landlock.rules_over_ports:
        return FailedProof(NO_PORT_RULES)
    try:
        probe = _probe(bubblewrap, landlock)
    except (OSError, subprocess.TimeoutExpired) as error:
        return FailedProof(f"the launcher does not run: {error}")
    if (probe.returncode, probe.stdout) != (0, "open\n"):
        said = ", ".join(probe.stdout.split()) or probe.stderr.strip()[-200:]
        return FailedProof(f"a process that is kept to one port ended with {probe.returncode}: {said}")
    return landlock


def _probe(bubblewrap: Bubblewrap, landlock: Landlock) -> subprocess.CompletedProcess[str]:
    with (
        InheritedDescriptors() as handed,
        socket.create_server(("127.0.0.1", 0)) as opened,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        ports = [listening.getsockname()[1] for listening in (opened, closed)]
        argv = bubblewrap.command(
            [sys.executable, "-I", "-S", "-c", _PROBE, *map(str, ports)],
            {**system_view("/home/aop", "none"), **python_view()},
            env={},
            cwd="/",
            network="host",
            handed=handed,
        )
        return subprocess.run(
            [*landlock.confining_words(ports[:1], handed), *argv],
            check=False,
            capture_output=True,
            env={},
            pass_fds=handed.descriptors,
            text=True,
            timeout=PROBE_SECONDS,
        )
