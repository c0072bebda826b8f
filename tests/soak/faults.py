"""Breaks `aop` at a system call that writes: killed there, or told that the disk is full or broken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from tests.racing import until
from tests.world import PATCH, World, git, make_repository, plan_for

ROOT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
GIT = shutil.which("git")
OPERATION_ID = "op-1"
MODE_AND_PATCH = f"diff --git a/src/a.txt b/src/a.txt\nold mode 100644\nnew mode 100755\n{PATCH}"

needs_strace = pytest.mark.skipif(STRACE is None, reason="strace, which breaks a process at a system call, is missing")

DURABLE = ("fsync", "fdatasync", "rename", "renameat", "renameat2")
WRITING = (
    *DURABLE,
    *("write", "pwrite64", "writev", "sendfile", "copy_file_range", "ftruncate"),
    *("link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "openat"),
)
"""Every call that changes a file or a folder; of `openat` only what creates."""

_WAS_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

AOP = (sys.executable, "-m", "aop.cli.main")


class How(StrEnum):
    """What happens at a point, as strace is told it."""

    KILLED = "signal=SIGKILL"
    DISK_FULL = "error=ENOSPC"
    DISK_BROKEN = "error=EIO"
    INTERRUPTED = "error=EINTR"


class Point(Struct, frozen=True, kw_only=True):
    """The n-th such call of `aop` itself, or of one of the git processes that it starts."""

    syscall: str
    nth: int
    git: int = 0
    """Which git process, counted from 1; 0 is `aop`."""
    command: str = ""
    to_disk: bool = True
    """Whether it writes to a disk, which can be full or broken; a pipe to its parent cannot."""

    @property
    def program(self) -> str:
        return f"git {self.command}" if self.git else "aop"


class Operation(Struct, frozen=True, kw_only=True):
    """One command that changes something, and how to bring a repository to where it can be given."""

    name: str
    tool: str = ""
    stage: str
    event: str
    """What the journal holds once when it is done."""


PLAN = Operation(name="plan.submit", tool="plan.submit", stage="planning", event="plan_accepted")
PATCHED = Operation(name="repo.apply_patch", tool="repo.apply_patch", stage="building", event="patch_applied")
PATCHED_BY_GIT = Operation(
    name="repo.apply_patch by git", tool="repo.apply_patch", stage="building", event="patch_applied"
)
MERGE = Operation(name="aop merge", stage="ready", event="feature_merged")
REBASE = Operation(name="aop rebase", stage="building", event="feature_rebased")
REBASED_BY_GIT = Operation(name="aop rebase by git", stage="building", event="feature_rebased")
LOCK = Operation(name="locks.acquire", tool="locks.acquire", stage="planning", event="lock_acquired")
BLOCKED = Operation(name="feature.state_patch", tool="feature.state_patch", stage="planning", event="state_patched")
WITH_GIT = (PLAN, PATCHED, PATCHED_BY_GIT, MERGE, REBASE, REBASED_BY_GIT)
OPERATIONS = (*WITH_GIT, LOCK, BLOCKED)


class Stage(Struct, frozen=True, kw_only=True):
    """A repository on which an operation can be given, and the words of `aop` that give it."""

    root: Path
    operation: Operation
    words: tuple[str, ...]

    def copied(self, to: Path) -> Stage:
        """Copy the repository together with its record; its worktree is told where it is now."""
        shutil.copytree(self.root, to, symlinks=True)
        registration, link = to / ".git/worktrees/one", to / ".worktrees/one/.git"
        (registration / "gitdir").write_text(f"{link}\n")
        link.write_text(f"gitdir: {registration}\n")
        for folder in (to / ".git/objects").glob("**/"):
            # What is flushed goes by the times of folders: they shall not be of the seconds before.
            os.utime(folder, (0, 0))
        return Stage(root=to, operation=self.operation, words=self.words)


def staged(operation: Operation, root: Path) -> Stage:
    """Make a repository on which the operation can be given."""
    world = World(make_repository(root))
    try:
        return Stage(root=root, operation=operation, words=_prepared(world, operation))
    finally:
        world.close()


def _prepared(world: World, operation: Operation) -> tuple[str, ...]:
    if operation is MERGE:
        world.ready()
        return ("merge", "one", "--leave-checkout", "--token", world.approval())
    if operation in (REBASE, REBASED_BY_GIT):
        world.plan()
        world.patch()
        # Git merges only where both changed the same file.
        path, text = ("README.md", "Meanwhile.\n") if operation is REBASE else ("src/a.txt", "one\ntwo\nthree\nfour\n")
        (world.root / path).write_text(text)
        git(world.root, "commit", "-qam", "Meanwhile")
        return ("rebase", "one")
    given: tuple[str, dict[str, object]]
    if operation is PLAN:
        world.init()
        given = "planner", {"plan_json": plan_for("one")}
    elif operation is LOCK:
        world.init()
        given = "orchestrator", {"resource": "openapi"}
    elif operation is BLOCKED:
        world.init()
        patch = {"status": "blocked", "status_reason": "A person must decide"}
        given = "orchestrator", {"expected_version": 1, "patch": patch}
    else:
        world.plan()
        given = "builder", {"unified_diff": PATCH if operation is PATCHED else MODE_AND_PATCH}
    role, arguments = given
    payload = json.dumps({"feature_id": "one", **arguments})
    return ("call", "--role", role, "--operation-id", OPERATION_ID, operation.tool, payload)


# --- which points there are ----------------------------------------------------------------------


def points_of(stage: Stage, scratch: Path, program: Sequence[str] = AOP) -> list[Point]:
    """Perform the operation once on a copy, and return every writing call of it, git's own ones last."""
    trace = scratch / "aop.trace"
    traced = (str(STRACE), "-qq", "-o", str(trace), "-e", f"trace={','.join(WRITING)}")
    with _shim(f'exec {" ".join(traced[:2])} -o "$0.$n.trace" {" ".join(traced[4:])} {GIT} "$@"') as path:
        own = stage.copied(scratch / "counted")
        ended = _ran((*traced, *program, *own.words), own.root, path=path)
        assert ended.code in (0, 10), (program, ended.said)
        points = list(_points_in(trace))
        for number in range(1, 1 + len(list(path.glob("git.*.trace")))):
            command = (path / f"git.{number}.command").read_text().strip()
            points += _points_in(path / f"git.{number}.trace", git=number, command=command)
    shutil.rmtree(own.root)
    return points


def _points_in(trace: Path, *, git: int = 0, command: str = "") -> Iterator[Point]:
    """Yield each call that creates or changes something, with its number among all calls of that name."""
    seen = Counter[str]()
    for line in trace.read_text(errors="replace").splitlines():
        name, _, words = line.partition("(")
        seen[name] += 1
        if name in WRITING and (name != "openat" or "O_CREAT" in words):
            to_disk = not (git and words.startswith(("1,", "2,")))
            yield Point(syscall=name, nth=seen[name], git=git, command=command, to_disk=to_disk)


def spread(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most so many of the points, from the first to the last in even steps."""
    if len(points) <= most:
        return list(points)
    return [points[step * (len(points) - 1) // max(1, most - 1)] for step in range(most)]


# --- breaking one ----------------------------------------------------------------------------------


class Ended(Struct, frozen=True, kw_only=True):
    """A process that was broken, and what it said of it."""

    code: int
    said: str
    missed: bool = False
    """Whether a full disk met an open that creates nothing, which no full disk refuses."""

    @property
    def ending(self) -> str:
        """Return how it ended: `killed`, `failed`, or `answered` as if nothing had been."""
        return "killed" if self.code in _WAS_KILLED else "failed" if self.code else "answered"


_TRIES = 5


def broken_copy(
    point: Point,
    how: How,
    stage: Stage,
    scratch: Path,
    *,
    program: Sequence[str] = AOP,
    with_parent: bool = False,
) -> tuple[Stage, Ended]:
    """Break the operation on a copy of its repository; return the copy, and how it ended.

    How many files are opened before a point varies a little, so a fault of an open may meet another one: then again.
    """
    for _ in range(_TRIES):
        own = stage.copied(scratch / "broken")
        ended = broken_at(point, how, own, program=program, with_parent=with_parent)
        if not ended.missed:
            return own, ended
        shutil.rmtree(own.root)
    # The point was not reached: what is left is what one leaves that nothing breaks.
    own = stage.copied(scratch / "broken")
    return own, _ran((*program, *stage.words), own.root)


def broken_at(
    point: Point, how: How, stage: Stage, *, program: Sequence[str] = AOP, with_parent: bool = False
) -> Ended:
    """Perform the operation, broken at a point; return when all of its processes have ended.

    A git process that is killed is killed alone, or together with the `aop` that waits for it.
    """
    assert STRACE is not None
    # A full disk stays full; but it lets files be opened that are there, and strace cannot tell which those are.
    on = "+" if how is How.DISK_FULL and point.syscall != "openat" else ""
    with tempfile.NamedTemporaryFile(prefix="aop-soak-") as trace:
        broken = f"{STRACE} -qq -o {trace.name} -e inject={point.syscall}:{how}:when={point.nth}{on}"
        broken += f" -e trace={point.syscall}"
        if not point.git:
            ended = _ran((*broken.split(), *program, *stage.words), stage.root)
        else:
            end_parent = "kill -9 $PPID;" if with_parent else ""
            then = f'[ "$n" = {point.git} ] || exec {GIT} "$@"\n{broken} {GIT} "$@"; code=$?\n{end_parent} exit $code'
            with _shim(then) as path:
                ended = _ran((*program, *stage.words), stage.root, path=path)
        if how is How.DISK_FULL and point.syscall == "openat":
            met = [line for line in Path(trace.name).read_text(errors="replace").splitlines() if "(INJECTED)" in line]
            return msgspec.structs.replace(ended, missed=any("O_CREAT" not in line for line in met))
        return ended


# Only what the shell does itself: a process for each count would be most of the time.
_COUNTING = """\
#!/bin/sh
read -r n <"$0.count"
n=$((n + 1))
echo $n >"$0.count"
skip=
for word; do
    case $skip$word in
    -c) skip=yes ;;
    yes*) skip= ;;
    -*) ;;
    *) echo "$word" >"$0.$n.command"; break ;;
    esac
done
"""


@contextmanager
def _shim(then: str) -> Iterator[Path]:
    """Have a folder whose `git` counts its calls and notes their names, and then does what it is told."""
    with tempfile.TemporaryDirectory(prefix="aop-soak-") as name:
        folder = Path(name)
        (folder / "git.count").write_text("0\n")
        (folder / "git").write_text(f"{_COUNTING}{then}\n")
        (folder / "git").chmod(0o755)
        yield folder


def _ran(words: Sequence[str], folder: Path, *, path: Path | None = None) -> Ended:
    """Run a program to its end and to the end of every process that it leaves behind."""
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            words,
            cwd=folder,
            env=quiet_environment(path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        ) as process:
            code = process.wait(timeout=60)
        until(lambda: not _lives(process.pid), seconds=10.0)
        said.seek(0)
        return Ended(code=code, said=said.read().decode(errors="replace"))


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def quiet_environment(path: Path | None = None) -> Mapping[str, str]:
    """Return an environment in which a process writes nothing of its own: no bytecode, no coverage."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    folders = os.environ.get("PATH", os.defpath)
    return {
        **kept,
        "PATH": folders if path is None else f"{path}:{folders}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "USER": "ada",
    }
