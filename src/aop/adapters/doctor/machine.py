"""Looks at the machine: Python, its SQLite, git, the clock, the disk and its file system, and the sandbox."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from aop.adapters.doctor.checks import Check, failure, fine, warning
from aop.adapters.git.process.program import GitProgram
from aop.adapters.processes.runner import LocalProcesses
from aop.core.errors import Fault, SandboxUnavailable
from aop.core.redaction.redactor import Redactor

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 38)
"""The first git with `merge-tree --write-tree`."""

FIRST_SANE_YEAR, LAST_SANE_YEAR = 2020, 2099
CLOCK_JITTER = timedelta(seconds=5)

LOW_BYTES, TOO_FEW_BYTES = 2 * 1024**3, 200 * 1024**2
LOW_FILES = 20_000

REMOTE_FILE_SYSTEMS = frozenset(
    "9p afs beegfs ceph cifs davfs drvfs fuse fuseblk glusterfs gpfs lustre ncpfs nfs nfs4 orangefs prl_fs smb3 smbfs"
    " vboxsf virtiofs vmhgfs".split()
)
"""Where locks and the database's shared memory do not hold for certain (S29)."""

MOUNTS = Path("/proc/self/mountinfo")

_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")


def check_python() -> Check:
    """Look at the interpreter that runs AOP."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return failure("python", f"{found} at {sys.executable}", "Run AOP with Python 3.11 or newer.")
    return fine("python", found)


def check_sqlite() -> Check:
    """Name the SQLite that this Python carries, which the record and the engine are stored with."""
    return fine("sqlite", sqlite3.sqlite_version)


def check_git(environ: Mapping[str, str]) -> Check:
    """Look for a git that is new enough."""
    fix = "Install git 2.38 or newer, and see to it that PATH leads to it."
    try:
        ran = GitProgram(environ).run(["version"], cwd=Path("/"), environment={})
    except Fault as fault:
        return failure("git", str(fault), fix)
    found = ran.out.decode("utf-8", "replace").strip().removeprefix("git version ")
    numbers = _NUMBERS.match(found)
    if ran.code or numbers is None:
        return failure("git", f"`git version` ended with {ran.code} and says `{found[:80]}`.", fix)
    if (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        return failure("git", f"{found} has no `merge-tree --write-tree`.", fix)
    return fine("git", found)


def check_clock(now: datetime, newest_entry: datetime | None) -> Check:
    """Compare the clock with the calendar, and with the last thing that the journal saw (S41)."""
    said = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    fix = "Set the clock, or let the machine keep it by NTP."
    if not FIRST_SANE_YEAR <= now.year <= LAST_SANE_YEAR:
        return warning("clock", f"It says {said}.", fix)
    if newest_entry is not None and newest_entry > now + CLOCK_JITTER:
        return warning("clock", f"It says {said}, and the newest entry of the journal is of {newest_entry}.", fix)
    return fine("clock", said)


def check_disk(folder: Path) -> Check:
    """Look for room at the repository."""
    free, left = shutil.disk_usage(folder).free, os.statvfs(folder)
    said = f"{free / 1024**3:.1f} GiB free"
    fix = "Make room: worktrees, gate runs and their logs need it."
    if free < TOO_FEW_BYTES:
        return failure("disk", said, fix)
    if free < LOW_BYTES:
        return warning("disk", said, fix)
    # Some file systems do not count files, and say 0 of 0.
    if left.f_files and left.f_favail < LOW_FILES:
        return warning("disk", f"{said}, and room for {left.f_favail} more files", fix)
    return fine("disk", said)


def check_file_system(folder: Path, mounts: str) -> Check:
    """Look at what kind of file system a folder lies on, by the text of `/proc/self/mountinfo`."""
    kind = file_system_of(os.path.realpath(folder), mounts)
    if kind is None:
        return fine("file system", "not known on this system")
    if kind in REMOTE_FILE_SYSTEMS or kind.startswith("fuse."):
        return warning(
            "file system",
            f"`{folder.name}` is on {kind}: locks between processes and the record's database may not hold there.",
            "Keep the repository on a local disk.",
        )
    return fine("file system", kind)


def file_system_of(path: str, mounts: str) -> str | None:
    """Return the type of the file system that a real path lies on; None if no line tells."""
    best, kind = "", None
    for line in mounts.splitlines():
        place, _, source = line.partition(" - ")
        fields = place.split(" ")
        if len(fields) < 5:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        # The last of several mounts on one place is the one that is seen.
        is_around = path == point or path.startswith(point.rstrip("/") + "/")
        if is_around and len(point) >= len(best):
            best, kind = point, source.split(" ")[0]
    return kind


def check_confinement(setting: str, environ: Mapping[str, str]) -> Iterator[Check]:
    """Let the sandbox prove itself, for gates and for agents, and say what a better one would take."""
    with tempfile.TemporaryDirectory(prefix="aop-doctor-") as scratch:
        processes = LocalProcesses(environ, Redactor(), private_root=Path(scratch))
        yield _check_sandbox(setting, processes, lambda: _why_no_bubblewrap(environ, Path(scratch)))
        yield _check_agent_network(processes.why_ports_stay_open("off" if setting == "off" else "auto"))


def _check_sandbox(setting: str, processes: LocalProcesses, why_not: Callable[[], str]) -> Check:
    if setting == "off":
        return warning(
            "sandbox",
            "Switched off: gate steps, and so what agents wrote, can do whatever you can.",
            "Set `execution.sandbox` in policy.yaml to `auto` or `require`.",
        )
    level = processes.sandbox_level("auto")
    if level == "bubblewrap":
        return fine("sandbox", level)
    why = why_not()
    found = f"`{level}` is the best that holds here. {why}"
    if level == "none" and setting == "require":
        return failure("sandbox", f"{found} The policy requires one, so no gate can run.", _bubblewrap_fix(why))
    return warning("sandbox", found, _bubblewrap_fix(why))


def _check_agent_network(why: str) -> Check:
    """Say whether sessions of coding agents are kept to the two ports that they need."""
    if not why:
        return fine("agent network", "two TCP ports, whatever the host; nothing else")
    return warning(
        "agent network",
        f"Coding agents reach what you reach: {why}.",
        "Use Linux 6.7 or newer with a sandbox that holds, or start AOP where only the model's provider is reached.",
    )


def _why_no_bubblewrap(environ: Mapping[str, str], scratch: Path) -> str:
    processes = LocalProcesses(environ, Redactor(), private_root=scratch, rungs=("bubblewrap",))
    try:
        processes.sandbox_level("require")
    except SandboxUnavailable as refusal:
        return refusal.message
    return ""


def _bubblewrap_fix(why: str) -> str:
    if "installed" in why:
        return "Install bubblewrap: the package `bubblewrap` of your system, or `pip install 'aop[sandbox]'`."
    return (
        "Let users make namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu"
        " `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container, run it with"
        " `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`."
    )
