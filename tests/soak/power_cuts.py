"""Cuts the power after an operation: what was done to folders and never flushed is lost, in any selection."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tests.soak.faults import STRACE, Stage, quiet_environment

FOLDER_CALLS = "openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat"

# SQLite sees to its own files; the lines of the call log are appended to one file, and nobody relies on them. The files
# of a worktree are made to be its tree before anything judges them.
_OUT_OF_REACH = (".aop/record.db", ".aop/calls", ".aop/locks/", ".worktrees/one/src/")

IN_AN_EARLIER_START = """
import sys
from pathlib import Path
from aop.adapters.machine import clock
clock.BOOT_ID = Path(sys.argv.pop(1))
from aop.cli.main import main
sys.exit(main())
"""

Files = dict[str, bytes]


class Done(Struct, frozen=True, kw_only=True):
    """An operation that was answered, and the files that a power cut right afterwards may take back."""

    stage: Stage
    before: Files
    lost: tuple[str, ...]

    def selections(self, count: int) -> Iterator[tuple[str, ...]]:
        """Yield all of the files, and then selections of them, the same each time."""
        yield self.lost
        dice = random.Random("power")
        for _ in range(count):
            yield tuple(path for path in self.lost if dice.random() < 0.5)

    def after_losing(self, paths: tuple[str, ...], to: Path) -> Stage:
        """Copy the repository as it is after the cut, with these files as they were before the operation."""
        left = self.stage.copied(to)
        for path in paths:
            place = left.root / path
            place.unlink(missing_ok=True)
            if path in self.before:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(self.before[path])
        return left


def done(stage: Stage, scratch: Path) -> Done:
    """Perform the operation on a copy, in an earlier start of the machine."""
    own = stage.copied(scratch / "done")
    before = _files(own.root)
    boot, trace = scratch / "boot", scratch / "trace"
    boot.write_text("earlier\n")
    traced = (str(STRACE), "-f", "-y", "-s", "4096", "-qq", "-o", str(trace), "-e")
    program = (sys.executable, "-c", IN_AN_EARLIER_START, str(boot))
    subprocess.run(
        [*traced, f"trace=fsync,fdatasync,{FOLDER_CALLS}", *program, *own.words],
        cwd=own.root,
        env=quiet_environment(),
        capture_output=True,
        check=True,
    )
    after, lines = _files(own.root), trace.read_text(errors="replace").splitlines()
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    within = [path for path in changed if not path.startswith(_OUT_OF_REACH)]
    lost = tuple(path for path in within if _can_be_lost(own.root / path, lines, is_new=path not in before))
    return Done(stage=own, before=before, lost=lost)


def _can_be_lost(path: Path, lines: list[str], *, is_new: bool) -> bool:
    """Tell whether something was done to a name of which its folder was not flushed afterwards."""
    named = f'{path.name}"'
    flush = re.compile(rf"f(?:data)?sync\(\d+<{re.escape(str(path.parent))}>")
    # Opening a file that is there does nothing to its name.
    harmless = re.compile(r"openat\((?!.*O_CREAT)" if is_new else r"openat\(")
    changes = [number for number, line in enumerate(lines) if named in line and not harmless.search(line)]
    flushes = [number for number, line in enumerate(lines) if flush.search(line)]
    return bool(changes) and max(changes) > max(flushes, default=-1)


def _files(root: Path) -> Files:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
