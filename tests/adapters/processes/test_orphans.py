"""What works for an AOP that was killed is ended by the next one; what works for a living one is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aop.adapters.processes.child import MAKER, MARKER
from aop.adapters.processes.orphans import end_children, end_orphans


@contextmanager
def at_work(folder: Path, *, maker: int, mark: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Have a process in a folder that works for an AOP of this process id."""
    folder.mkdir(exist_ok=True)
    env = {"PATH": os.defpath, **({MAKER: mark} if mark else {MARKER: f"{maker}-0123456789abcdef"})}
    with subprocess.Popen(["/bin/sh", "-c", "read _"], cwd=folder, env=env, stdin=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def dead_process() -> int:
    with subprocess.Popen(["true"]) as ended:
        return ended.pid


def test_what_a_killed_aop_left_in_this_repository_is_ended_and_nothing_else(tmp_path: Path) -> None:
    here, elsewhere, dead = tmp_path / "here", tmp_path / "elsewhere", dead_process()
    with (
        at_work(here, maker=dead) as orphan,
        at_work(here, maker=os.getpid()) as ours,
        at_work(elsewhere, maker=dead) as foreign,
    ):
        end_orphans(here)
        assert orphan.wait(timeout=300) == -9
        assert (ours.poll(), foreign.poll()) == (None, None)


def test_a_sandbox_that_missed_the_end_of_its_aop_is_ended_wherever_it_is_by_the_folder_that_it_was_made_for(
    tmp_path: Path,
) -> None:
    here, elsewhere, dead = tmp_path / "here", tmp_path / "elsewhere", dead_process()
    with (
        at_work(elsewhere, maker=dead, mark=f"{dead}-{here}/.aop/run") as orphan,
        at_work(here, maker=dead, mark=f"{dead}-{elsewhere}/.aop/run") as foreign,
    ):
        end_orphans(here)
        assert orphan.wait(timeout=300) == -9
        assert foreign.poll() is None


def test_a_process_that_ends_takes_what_works_for_it_along(tmp_path: Path) -> None:
    with at_work(tmp_path, maker=os.getpid()) as ours, at_work(tmp_path, maker=1) as foreign:
        end_children()
        assert ours.wait(timeout=300) == -9
        assert foreign.poll() is None
