"""Run files: the finished steps of each active ticket run.

The file holds what the next step needs, secrets included: only its owner can read it, and it is deleted when the run
ends. Its lock belongs to the process that works on the run, and ends with that process.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import Fault, Json, TicketRunBusy
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
        self._known = _read(descriptor)
        self._at = 0

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        at, self._at = self._at, self._at + 1
        if at < len(self._known):
            if self._known[at].step != name:
                raise Fault(f"Step {at} of `{self.run_id}` was `{self._known[at].step}`, and is `{name}` now.")
            known: Json = self._known[at].outcome
            return known
        outcome = await do()
        _write_whole(self._descriptor, msgspec.json.encode(_FinishedStep(name, outcome)) + b"\n")
        return outcome

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


class RunFiles:
    """Implements `aop.tickets.runs.storage.StoredRuns`: the run files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def lock(self, run_id: RunId) -> Iterator[FileRun]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(run_id)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TicketRunBusy(f"Another process works on `{run_id}`.", run=run_id) from error
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


def _read(descriptor: int) -> list[_FinishedStep]:
    """Return the finished steps; a last line that a killed process left incomplete is cut off."""
    with open(os.dup(descriptor), "rb") as file:
        file.seek(0)
        kept = file.read()
    whole = kept[: kept.rfind(b"\n") + 1]
    if len(whole) < len(kept):
        os.ftruncate(descriptor, len(whole))
    return msgspec.json.decode(b"[" + b",".join(whole.splitlines()) + b"]", type=list[_FinishedStep])


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
