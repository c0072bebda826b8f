"""Machine checks: Python, SQLite, git, clock, disk, file system and sandbox."""

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

from aop.adapters.git.narrow.base_packs import HISTORIES
from aop.adapters.git.process.program import GitProgram
from aop.adapters.processes.limits import process_limit
from aop.adapters.processes.runner import LocalProcesses
from aop.adapters.reporting.doctor.checks import Check, failure, fine, warning
from aop.core.errors import Fault, SandboxUnavailable
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count

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
"""File systems on which locks and the database's shared memory are not reliable (S29)."""

MOUNTS = Path("/proc/self/mountinfo")

_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")


def check_python() -> Check:
    """Check the version of the interpreter that runs AOP."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return failure("python", f"{found} at {sys.executable}", "Run AOP with Python 3.11 or newer.")
    return fine("python", found)


def check_sqlite() -> Check:
    """Name the SQLite version that this Python carries; the record and the engine are stored with it."""
    return fine("sqlite", sqlite3.sqlite_version)


def check_git(environ: Mapping[str, str]) -> Check:
    """Check that git is installed and new enough."""
    fix = "Install git 2.38 or newer, and put it on PATH."
    try:
        ran = GitProgram(environ).run(["version"], cwd=Path("/"), environment={})
    except Fault as fault:
        return failure("git", str(fault), fix)
    found = ran.out.decode("utf-8", "replace").strip().removeprefix("git version ")
    numbers = _NUMBERS.match(found)
    if ran.code or numbers is None:
        return failure("git", f"`git version` exited with {ran.code} and printed `{found[:80]}`.", fix)
    if (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        return failure("git", f"{found} is too old: it has no `merge-tree --write-tree`.", fix)
    return fine("git", found)


def check_clock(now: datetime, newest_entry: datetime | None) -> Check:
    """Check that the clock is plausible and not behind the newest journal entry (S41)."""
    text = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    fix = "Set the clock, or synchronize it with NTP."
    if not FIRST_SANE_YEAR <= now.year <= LAST_SANE_YEAR:
        return warning("clock", f"The clock says {text}.", fix)
    if newest_entry is not None and newest_entry > now + CLOCK_JITTER:
        return warning("clock", f"The clock says {text}, but the newest journal entry is from {newest_entry}.", fix)
    return fine("clock", text)


def check_disk(folder: Path) -> Check:
    """Check the free space and the free inodes of the repository's disk, and what copies of the history take."""
    free, left = shutil.disk_usage(folder).free, os.statvfs(folder)
    text = f"{free / 1024**3:.1f} GiB free"
    if copied := file_totals(folder / ".aop" / HISTORIES)[1]:
        text += f", {copied / 1024**2:.1f} MiB of history for sandboxes"
    fix = "Free some space: worktrees, gate runs and their logs need it."
    if free < TOO_FEW_BYTES:
        return failure("disk", text, fix)
    if free < LOW_BYTES:
        return warning("disk", text, fix)
    # Some file systems do not count files, and say 0 of 0.
    if left.f_files and left.f_favail < LOW_FILES:
        return warning("disk", f"{text}, but room for only {count(left.f_favail, 'more file')}", fix)
    return fine("disk", text)


def file_totals(folder: Path) -> tuple[int, int]:
    """Return the number of files below a folder, and their size."""
    paths = [os.path.join(place, name) for place, _folders, names in os.walk(folder) for name in names]
    return len(paths), sum(os.lstat(path).st_size for path in paths)


def check_file_system(folder: Path, mounts: str) -> Check:
    """Check the type of file system that a folder is on, from the text of `/proc/self/mountinfo`."""
    kind = file_system_of(os.path.realpath(folder), mounts)
    if kind is None:
        return fine("file system", "unknown on this system")
    if kind in REMOTE_FILE_SYSTEMS or kind.startswith("fuse."):
        return warning(
            "file system",
            f"`{folder.name}` is on {kind}, where file locks and the database are not reliable.",
            "Keep the repository on a local disk.",
        )
    return fine("file system", kind)


def file_system_of(path: str, mounts: str) -> str | None:
    """Return the type of the file system that a real path is on; None if no mount covers it."""
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
    """Prove the sandbox for gates and the port filter for agents."""
    with tempfile.TemporaryDirectory(prefix="aop-doctor-") as scratch:
        processes = LocalProcesses(environ, Redactor(), private_root=Path(scratch))
        yield _check_sandbox(setting, processes, lambda: _why_no_bubblewrap(environ, Path(scratch)))
        yield _check_process_limit(process_limit())
        yield _check_agent_network(processes.why_ports_stay_open("off" if setting == "off" else "auto"))


def _check_sandbox(setting: str, processes: LocalProcesses, why_not: Callable[[], str]) -> Check:
    if setting == "off":
        return warning(
            "sandbox",
            "Switched off: gate steps run code that agents wrote with your permissions.",
            "Set `execution.sandbox` in policy.yaml to `auto` or `require`.",
        )
    level = processes.sandbox_level("auto")
    if level == "bubblewrap":
        return fine("sandbox", level)
    why = why_not()
    found = f"{'No sandbox works' if level == 'none' else f'Only `{level}` works'} here. {why}"
    if level == "none" and setting == "require":
        return failure("sandbox", f"{found} The policy requires a sandbox, so no gate can run.", _bubblewrap_fix(why))
    return warning("sandbox", found, _bubblewrap_fix(why))


def _check_process_limit(how: str) -> Check:
    """Tell how the number of processes of a step is limited."""
    if how:
        return fine("process limit", f"by {how}")
    return warning(
        "process limit",
        "`execution.limits.processes` has no effect: the kernel limits the processes of root in a control group only,"
        " and AOP can neither make one here nor count them.",
        "Run AOP as another user, or where the `pids` controller of /sys/fs/cgroup can be written.",
    )


def _check_agent_network(why: str) -> Check:
    """Tell whether sessions of coding agents are limited to the two ports that they need."""
    if not why:
        return fine("agent network", "limited to two TCP ports")
    return warning(
        "agent network",
        f"Coding agents can connect to every host that you can: {why}.",
        "Use Linux 6.7 or newer with a working sandbox, or run AOP where only the model's provider is reachable.",
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
        return "Install the package `bubblewrap` of your system."
    return (
        "Allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu"
        " `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; start a container with"
        " `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`."
    )
