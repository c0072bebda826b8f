"""Run files: the finished steps of each active run of a ticket or a generation.

The file holds what the next step needs, secrets included: only its owner can read it, and it is deleted when the run
ends. Its lock belongs to the process that works on the run, and ends with that process.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import Fault, Json, Refusal, TicketRunBusy
from aop.core.ids import RunId

SUFFIX = ".steps"


class _FinishedStep(Struct, frozen=True):
    step: str
    outcome: Any


class FileRun:
    """Implements `aop.tickets.runs.storage.StoredRun`."""

    def __init__(self, run_id: RunId, path: Path, descriptor: int) -> None:
        self.run_id = run_id
        self._path = path
        self._descriptor = descriptor
        self._known, self._ends = _read(descriptor)
        self._at = 0

    @property
    def steps_done(self) -> int:
        """Return the number of steps that this process has passed."""
        return self._at

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        at, self._at = self._at, self._at + 1
        if at < len(self._known):
            if self._known[at].step != name:
                raise Fault(f"Step {at} of `{self.run_id}` was `{self._known[at].step}`, and is `{name}` now.")
            known: Json = self._known[at].outcome
            return known
        outcome = await do()
        step = _FinishedStep(name, outcome)
        self._append(msgspec.json.encode(step) + b"\n")
        self._known.append(step)
        return outcome

    def go_back(self, steps: int = 0) -> None:
        """Forget all but the first steps, and continue after them."""
        os.ftruncate(self._descriptor, self._ends[steps - 1] if steps else 0)
        del self._known[steps:], self._ends[steps:]
        self._at = steps

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _append(self, line: bytes) -> None:
        """Write a step whole, or leave the file as it was."""
        end = self._ends[-1] if self._ends else 0
        try:
            _write_whole(self._descriptor, line)
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise
        self._ends.append(end + len(line))


class RunFiles:
    """Implements `aop.tickets.runs.storage.StoredRuns`: the run files of one folder."""

    def __init__(self, folder: Path, *, busy: type[Refusal] = TicketRunBusy) -> None:
        self._folder = folder
        self._busy = busy

    @contextmanager
    def lock(self, run_id: RunId) -> Iterator[FileRun]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(run_id)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise self._busy(f"Another process works on `{run_id}`.", run=run_id) from error
            _sync_folder(self._folder)
            yield FileRun(run_id, path, descriptor)
        finally:
            os.close(descriptor)

    def ids(self) -> list[RunId]:
        return [RunId(path.name.removesuffix(SUFFIX)) for path in sorted(self._folder.glob(f"*{SUFFIX}"))]

    def remove(self, run_id: RunId) -> None:
        self._path(run_id).unlink(missing_ok=True)

    def _path(self, run_id: RunId) -> Path:
        return self._folder / f"{run_id}{SUFFIX}"


def _read(descriptor: int) -> tuple[list[_FinishedStep], list[int]]:
    """Return the finished steps and where each ends; a last line that a killed process left incomplete is cut off."""
    with open(os.dup(descriptor), "rb") as file:
        file.seek(0)
        kept = file.read()
    whole = kept[: kept.rfind(b"\n") + 1]
    if len(whole) < len(kept):
        os.ftruncate(descriptor, len(whole))
    lines = whole.splitlines(keepends=True)
    steps = msgspec.json.decode(b"[" + b",".join(lines) + b"]", type=list[_FinishedStep])
    return steps, list(accumulate(map(len, lines)))


def _write_whole(descriptor: int, line: bytes) -> None:
    while line:
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
