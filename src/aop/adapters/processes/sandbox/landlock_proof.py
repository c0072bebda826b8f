"""Landlock proof: a process that tries to escape from Landlock and the filter."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from aop.adapters.processes.child import InheritedDescriptors
from aop.adapters.processes.sandbox.bubblewrap import FailedProof, Mount, system_view
from aop.adapters.processes.sandbox.landlock import Landlock
from aop.adapters.processes.sandbox.seccomp import PROCESSORS

PROBE_SECONDS = 60
_CREATE_RULESET, _ASK_VERSION = 444, 1
_NEWEST_ABI = 7
_SIGNALS_SINCE = 6

# Each line is printed if the attempt before it succeeds.
_PROBE = """
import _socket, os, sys
root, home, pid, port = sys.argv[1:]
os.chdir(root + "/worktree")
def attempt(name, function, *arguments):
    try:
        function(*arguments)
        print(name)
    except OSError:
        pass
def connect(family, address):
    _socket.socket(family).connect(address)
attempt("worktree", open, root + "/worktree/file", "w")
attempt("program", os.listdir, os.path.dirname(os.__file__))
attempt("readable", open, root + "/readable/file", "w")
attempt("truncated", os.truncate, root + "/readable/canary", 0)
for mode in (os.O_RDONLY, os.O_ACCMODE):
    attempt("truncated", os.open, root + "/readable/canary", mode | os.O_TRUNC)
attempt("hidden", open, root + "/hidden/canary")
attempt("hidden", os.truncate, root + "/hidden/canary", 0)
attempt("home", os.listdir, home)
attempt("root", open, "/aop", "w")
attempt("network", connect, _socket.AF_INET, ("127.0.0.1", int(port)))
attempt("socket", connect, _socket.AF_UNIX, "socket")
attempt("environment", open, f"/proc/{pid}/environ")
attempt("signal", os.kill, int(pid), 0)
"""


def prove_landlock(scratch: Path, *, home: str, limit: int = _NEWEST_ABI) -> Landlock | FailedProof:
    """Return the version of Landlock that works; `limit` is the newest one to try."""
    landlock = kernel_landlock(limit)
    if isinstance(landlock, FailedProof):
        return landlock
    try:
        for folder in ("worktree", "readable", "hidden"):
            (scratch / folder).mkdir(parents=True)
            (scratch / folder / "canary").write_text("sings", encoding="ascii")
        return _verdict_of(landlock, _probe(landlock, scratch, home), scratch)
    except (OSError, subprocess.TimeoutExpired) as error:
        return FailedProof(f"the launcher does not run: {error}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def kernel_landlock(limit: int = _NEWEST_ABI) -> Landlock | FailedProof:
    """Return the Landlock that the kernel reports."""
    abi, processor = min(_version(), limit), os.uname().machine
    if abi < 1:
        return FailedProof("this kernel has no Landlock")
    if processor not in PROCESSORS or not sys.executable:
        return FailedProof(f"there is no filter of system calls for `{processor}`")
    return Landlock(abi=abi, processor=processor)


def python_view() -> dict[str, Mount]:
    """Return the folders that this interpreter needs."""
    python = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.base_exec_prefix)}
    return {place: Mount("--ro-bind", place) for place in python}


def _version() -> int:
    """Return the version of Landlock in the kernel; less than 1 if it has none."""
    import ctypes

    return int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def _probe(landlock: Landlock, scratch: Path, home: str) -> subprocess.CompletedProcess[str]:
    root = os.path.realpath(scratch)
    worktree, readable = os.path.join(root, "worktree"), os.path.join(root, "readable")
    view = {**system_view(home, "none"), **python_view(), worktree: Mount("--bind", worktree)}
    view[readable] = Mount("--ro-bind", readable)
    with (
        InheritedDescriptors() as handed,
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as file,
    ):
        folder = handed.keep(os.open(worktree, os.O_PATH))
        # The path of a socket may have only a hundred characters.
        file.bind(f"/proc/self/fd/{folder}/socket")
        file.listen()
        facts = (root, home, str(os.getpid()), str(port.getsockname()[1]))
        argv = landlock.command(
            [sys.executable, "-I", "-S", "-c", _PROBE, *facts],
            landlock.restrictions(view, writable=(), network="none"),
            env={},
            cwd="/",
            handed=handed,
        )
        return subprocess.run(
            argv,
            check=False,
            capture_output=True,
            env={},
            input="\n",
            pass_fds=handed.descriptors,
            text=True,
            timeout=PROBE_SECONDS,
        )


def _verdict_of(landlock: Landlock, probe: subprocess.CompletedProcess[str], scratch: Path) -> Landlock | FailedProof:
    facts = probe.stdout.split()
    expected = ["worktree", "program", *["signal"] * (landlock.abi < _SIGNALS_SINCE)]
    if probe.returncode != 0:
        return FailedProof(f"a process under Landlock ended with {probe.returncode}: {probe.stderr.strip()[-200:]}")
    written = [name for name in ("readable", "hidden") if (scratch / name / "canary").read_text() != "sings"]
    if facts != expected or written:
        return FailedProof(f"Landlock does not shut a process in: {', '.join(facts + written)}")
    return landlock
