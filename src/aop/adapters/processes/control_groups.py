"""Control groups: memory and process limits of a step, for root or under systemd."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from aop.kernel.config.policy import StepLimits

_ROOT = "/sys/fs/cgroup"
_OWN = Path("/proc/self/cgroup")
_PAUSES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2)


class GroupFolder(Struct, frozen=True, kw_only=True):
    """A folder to make in the first possible parent, with all settings."""

    parents: tuple[str, ...]
    settings: Mapping[str, int]
    swap: Mapping[str, int] = {}
    """Limits of swap, which not every kernel has."""


class ControlGroup:
    """An existing group; version 1 of the kernel's interface has one folder for memory and one for processes."""

    def __init__(self, folders: Sequence[Path], *, limits_memory: bool) -> None:
        self._folders = folders
        self.limits_memory = limits_memory

    def add(self, pid: int) -> bool:
        """Move a process into the group; tell whether that was allowed."""
        try:
            for folder in self._folders:
                (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except OSError:
            return False
        return True

    def memory_kills(self) -> int:
        """Return the number of processes of the group that the kernel killed for lack of memory."""
        for file in (folder / name for folder in self._folders for name in ("memory.events", "memory.oom_control")):
            with suppress(OSError):
                counters = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
                return int(counters.get("oom_kill", 0))
        return 0


@contextmanager
def control_group(limits: StepLimits) -> Iterator[ControlGroup | None]:
    """Make a group and remove it afterwards; None if AOP cannot make one with all settings."""
    wanted = wanted_folders(limits, _OWN.read_text(encoding="utf-8") if _OWN.exists() else "")
    made = [folder for folder in map(_make_folder, wanted) if folder is not None]
    is_whole = bool(made) and len(made) == len(wanted)
    try:
        yield ControlGroup(made, limits_memory=limits.memory_bytes > 0) if is_whole else None
    finally:
        for folder in made:
            _remove(folder)


def wanted_folders(limits: StepLimits, own: str) -> list[GroupFolder]:
    """Return the folders to make; `own` is `/proc/self/cgroup`, with the group of AOP itself."""
    lines = (line.split(":", 2) for line in own.splitlines())
    groups = {name: path.rstrip("/") for _, names, path in lines for name in names.split(",")}
    memory, processes = limits.memory_bytes, limits.processes
    counted = {"pids.max": processes} if processes else {}
    if "memory" in groups and "pids" in groups:
        folders = [
            GroupFolder(
                parents=(f"{_ROOT}/memory{groups['memory']}",),
                settings={"memory.limit_in_bytes": memory} if memory else {},
                swap={"memory.memsw.limit_in_bytes": memory},
            ),
            GroupFolder(parents=(f"{_ROOT}/pids{groups['pids']}",), settings=counted),
        ]
    else:
        path = groups.get("", "")
        # A group with processes cannot hold a limited group, so the parent of AOP's own is tried first.
        parents = dict.fromkeys((f"{_ROOT}{os.path.dirname(path)}".rstrip("/"), f"{_ROOT}{path}"))
        settings = {"memory.max": memory, **counted} if memory else counted
        folders = [
            GroupFolder(parents=tuple(parents), settings=settings, swap={"memory.swap.max": 0} if memory else {})
        ]
    return [folder for folder in folders if folder.settings]


def _make_folder(wanted: GroupFolder) -> Path | None:
    for parent in wanted.parents:
        folder = Path(parent, f"aop-{os.getpid()}-{os.urandom(4).hex()}")
        with suppress(OSError):
            folder.mkdir()
            try:
                _write(folder, wanted.settings)
            except OSError:
                folder.rmdir()
                continue
            with suppress(OSError):
                _write(folder, wanted.swap)
            return folder
    return None


def _remove(folder: Path) -> None:
    # Version 2 kills all processes at once.
    with suppress(OSError):
        _write(folder, {"cgroup.kill": 1})
    for pause in _PAUSES:
        with suppress(OSError):
            folder.rmdir()
            return
        # An ended process leaves its group a moment later.
        time.sleep(pause)


def _write(folder: Path, settings: Mapping[str, int]) -> None:
    for name, value in settings.items():
        # Never created: without the controller, the file would limit nothing.
        with open(folder / name, "r+", encoding="ascii") as file:
            file.write(str(value))
