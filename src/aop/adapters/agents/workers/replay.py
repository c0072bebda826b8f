"""Replay of recorded agents: the recorded answers in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.errors import Fault, ReplayDiverged
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.supervisor.workers import ProviderChoice, Worker, WorkerInput, WorkerOutput


class RecordedTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a transcript."""

    role: Role
    output: WorkerOutput
    after: FeatureId | None = None
    """The feature whose plan must be accepted before this answer is given."""


class ReplayWorker:
    """Implements `aop.supervisor.workers.Worker`."""

    def __init__(
        self, turns: Iterable[RecordedTurn], await_plan: Callable[[FeatureId], None] = lambda _feature_id: None
    ) -> None:
        self._turns = iter(turns)
        self._await_plan = await_plan
        self._played = 0

    def turn(self, given: WorkerInput) -> WorkerOutput:
        recorded = next(self._turns, None)
        if recorded is None:
            raise ReplayDiverged(
                f"The recording ends after {count(self._played, 'turn')}, but the {given.role} of"
                f" `{given.feature_id}` needs another one.",
                played=self._played,
            )
        if recorded.role is not given.role:
            raise ReplayDiverged(
                f"Turn {self._played + 1} of the recording is for the {recorded.role}, not for the {given.role}.",
                played=self._played,
            )
        if recorded.after is not None:
            self._await_plan(recorded.after)
        self._played += 1
        return recorded.output


class ReplayStaff:
    """Implements `aop.supervisor.feature_run.Staff` with one recording for each feature."""

    def __init__(self, workers: Mapping[FeatureId, Worker]) -> None:
        self._workers = workers

    def choice(self, role: Role) -> ProviderChoice:
        return ProviderChoice(provider="replay")

    def model_provider(self, role: Role) -> str:
        return "replay"

    def worker(self, feature_id: FeatureId, role: Role) -> Worker:
        return self._workers[feature_id]

    def prompt(self, role: Role) -> str:
        return f"You are the {role}."

    def unpriced_model(self, role: Role) -> str:
        return ""


def read_transcript(data: bytes) -> Iterator[RecordedTurn]:
    """Yield the turns of a transcript in JSON lines."""
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            yield msgspec.json.decode(line, type=RecordedTurn)
        except msgspec.DecodeError as error:
            raise Fault(f"Line {number} of the transcript is not a turn: {error}.") from error


def shipped_transcript(name: str) -> bytes:
    """Return a transcript that is shipped with AOP."""
    return (Path(__file__).with_name("transcripts") / f"{name}.jsonl").read_bytes()
