"""Run files: finished steps are not repeated, and nothing stays after the end."""

from __future__ import annotations

import asyncio
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.storage.run_files import FileRun, RunFiles
from aop.core.errors import Fault, TicketRunBusy
from aop.core.ids import RunId

RUN = RunId("scaffold-SHOP-12-1")


def played(run: FileRun, did: list[str], *names: str) -> list[Any]:
    async def step(name: str) -> Any:
        async def do() -> Any:
            did.append(name)
            return {"did": name}

        return await run.step(name, do)

    async def play() -> list[Any]:
        return [await step(name) for name in names]

    return asyncio.run(play())


def test_a_step_that_is_done_is_not_done_again_and_one_that_was_cut_off_is(tmp_path: Path) -> None:
    did: list[str] = []
    with RunFiles(tmp_path / "runs").lock(RUN) as run:
        played(run, did, "one", "two")
    (kept,) = (tmp_path / "runs").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(kept.read_bytes()[:-4])
    with RunFiles(tmp_path / "runs").lock(RUN) as run:
        assert played(run, did, "one", "two", "three") == [{"did": "one"}, {"did": "two"}, {"did": "three"}]
    with RunFiles(tmp_path / "runs").lock(RUN) as run:
        played(run, did, "one", "two", "three")
        run.forget()
    assert did == ["one", "two", "two", "three"]
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_has_one_worker_at_a_time(tmp_path: Path) -> None:
    with RunFiles(tmp_path).lock(RUN), pytest.raises(TicketRunBusy), RunFiles(tmp_path).lock(RUN):
        pass


def test_steps_in_another_order_than_they_were_done_break_the_run(tmp_path: Path) -> None:
    with RunFiles(tmp_path).lock(RUN) as run:
        played(run, [], "one")
    with RunFiles(tmp_path).lock(RUN) as run, pytest.raises(Fault, match="was `one`, and is `two` now"):
        played(run, [], "two")


def test_a_run_that_goes_back_keeps_the_steps_before_in_this_process_and_the_next(tmp_path: Path) -> None:
    did: list[str] = []
    with RunFiles(tmp_path).lock(RUN) as run:
        played(run, did, "one", "two", "three")
        assert run.steps_done == 3
        run.go_back(1)
        played(run, did, "four")
    with RunFiles(tmp_path).lock(RUN) as run:
        played(run, did, "one", "four")
        run.go_back()
        played(run, did, "five")
    assert did == ["one", "two", "three", "four", "five"]


def test_a_step_that_cannot_be_written_leaves_the_steps_before(tmp_path: Path) -> None:
    did: list[str] = []
    with RunFiles(tmp_path).lock(RUN) as run:
        played(run, did, "one")
        size, limits = (tmp_path / f"{RUN}.steps").stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))
            with pytest.raises(OSError, match="File too large"):
                played(run, did, "two")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)
        assert (tmp_path / f"{RUN}.steps").stat().st_size == size
    with RunFiles(tmp_path).lock(RUN) as run:
        assert played(run, did, "one", "two") == [{"did": "one"}, {"did": "two"}]
