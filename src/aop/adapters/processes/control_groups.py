"""Control groups: memory and process limits of a step, for root or under systemd."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from aop.core.errors import Fault
from aop.kernel.config.policy import StepLimits

_ROOT = "/sys/fs/cgroup"
# Not that of the process: its main thread may be in the group of a step that it starts just now.
_OWN = Path("/proc/thread-self/cgroup")
_ONE_THREAD, _THIS_THREAD, _MOST = "tasks", b"0", "pids.max"
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
        self._entered: tuple[Path, ...] = ()
        self.limits_memory = limits_memory

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have what this thread starts begin in the group, as far as the kernel lets a single thread enter it."""
        # To move another process, the kernel waits for all processors: 10 ms. Version 2 moves no single thread, and the
        # memory of a thread is that of AOP.
        entered = []
        with ExitStack() as inside:
            for folder in self._folders:
                # What cannot be entered gets the process later.
                with suppress(OSError, ValueError):
                    inside.enter_context(_entered(folder))
                    entered.append(folder)
            yield
        self._entered = tuple(entered)

    def add(self, pid: int) -> bool:
        """Move a process into the group, where it did not begin there; tell whether that was allowed."""
        try:
            for folder in (folder for folder in self._folders if folder not in self._entered):
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
    except BaseException:
        _leave(made)
        raise
    finally:
        for folder in made:
            _remove(folder)


def wanted_folders(limits: StepLimits, own: str) -> list[GroupFolder]:
    """Return the folders to make; `own` is `/proc/thread-self/cgroup`, with the group of AOP itself."""
    lines = (line.split(":", 2) for line in own.splitlines())
    groups = {name: path.rstrip("/") for _, names, path in lines for name in names.split(",")}
    memory, processes = limits.memory_bytes, limits.processes
    counted = {_MOST: processes} if processes else {}
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


@contextmanager
def _entered(folder: Path) -> Iterator[None]:
    """Have this thread be in a group, and afterwards in the one around it. Raises: OSError or ValueError before."""
    most = int((folder / _MOST).read_text(encoding="ascii"))
    with (
        open(folder.parent / _ONE_THREAD, "wb", buffering=0) as back,
        open(folder / _ONE_THREAD, "wb", buffering=0) as to,
    ):
        # This thread counts too, and a step may start all of its processes before the thread is out again.
        _write(folder, {_MOST: most + 1})
        try:
            to.write(_THIS_THREAD)
            yield
        finally:
            try:
                back.write(_THIS_THREAD)
                _write(folder, {_MOST: most})
            except OSError as error:
                raise Fault("AOP cannot leave the control group of a step.") from error


def _leave(folders: Sequence[Path]) -> None:
    """Move this thread out of groups in which a signal, such as Ctrl-C, may have left it."""
    with suppress(OSError):
        own = {line.rpartition("/")[2] for line in _OWN.read_text(encoding="utf-8").splitlines()}
        for folder in (folder for folder in folders if folder.name in own):
            (folder.parent / _ONE_THREAD).write_bytes(_THIS_THREAD)


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
