"""Turn runs: the orders of the queue `agents`, carried out on this worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.files.own_folders import held_folder
from aop.adapters.fleet.runs.log_parts import LogParts
from aop.adapters.fleet.runs.run_context import RunContext, plain_answer
from aop.adapters.fleet.runs.turn_lines import TurnLine
from aop.adapters.git.repository import Repository
from aop.adapters.models.metering.usage_files import UsageFiles
from aop.core.errors import Json
from aop.core.ids import CommitId, FeatureId, ObjectId
from aop.core.roles import Role
from aop.kernel.config.in_force import Config

_LOGS = ".aop/logs"
"""The logs of agents, from the root of a repository."""


class TurnPlace(Struct, frozen=True, kw_only=True):
    """A turn as this worker has it: an order, a clone with its commit, and the line to its leader."""

    order: Mapping[str, Any]
    repository: Repository
    folder: Path
    """A folder of this turn alone, which ends with it: another one of the role may not have ended yet."""
    worker: str
    call: Callable[[str, Json], Any]
    """Has the leader answer a call of the agent. Raises: LeaderSilent."""
    stopped: Callable[[], str]
    """Returns why the leader stopped the turn; empty while it goes on."""
    earlier: tuple[Json, ...]
    """What workers that began the turn before had counted last."""
    say: Callable[[str], None]


TakeTurn = Callable[[TurnPlace], Struct]
"""Lets a coding agent of this machine take a turn, and returns the answer."""


class _OrderHead(Struct, frozen=True, kw_only=True):
    """The part of an order that says where its turn happens."""

    feature_id: FeatureId
    role: Role
    base_commit: str
    config: Config


class _TurnPayload(Struct, frozen=True, kw_only=True):
    """A run of the queue `agents`, as a leader sends it."""

    order: Mapping[str, Any]
    hub: str
    ref: str
    commit: str
    repository: str


class TurnRuns:
    """Carries out the turns of one worker."""

    def __init__(self, context: RunContext, take_turn: TakeTurn) -> None:
        self._context = context
        self._take_turn = take_turn
        self._lines: dict[str, TurnLine] = {}
        context.liveness.on_answered = self._wake

    def perform(self, run: str, payload: Mapping[str, Json]) -> Mapping[str, Json]:
        """Take the turn that a leader ordered, and return its answer."""
        ordered = msgspec.convert(payload, _TurnPayload)
        head = msgspec.convert(ordered.order, _OrderHead)
        clones = self._context.clones
        repository = clones.have(ordered.repository, ordered.hub, ordered.ref, CommitId(ObjectId(ordered.commit)))
        clones.follow_base(repository, head.config.policy.worktree.base_branch, CommitId(ObjectId(head.base_commit)))
        with _own_folder(repository) as folder:
            return self._taken(run, ordered.order, head, repository, folder)

    def _taken(
        self, run: str, order: Mapping[str, Any], head: _OrderHead, repository: Repository, folder: Path
    ) -> Mapping[str, Json]:
        counts, worker = UsageFiles(folder), self._context.liveness.id
        line = TurnLine(self._context.engine, run, worker, lambda: _counted(counts, head))
        logs = f"{_LOGS}/{head.feature_id}"
        self._lines[run] = line
        try:
            with line, LogParts(folder / logs, logs, self._sender(run)) as parts:
                place = TurnPlace(
                    order=order,
                    repository=repository,
                    folder=folder,
                    worker=worker,
                    call=line.call,
                    stopped=lambda: line.stop_reason,
                    earlier=tuple(line.earlier),
                    say=self._context.say,
                )
                answer = self._take_turn(place)
                parts.finish()
                return plain_answer(answer)
        finally:
            del self._lines[run]

    def _wake(self, run: str) -> None:
        line = self._lines.get(run)
        if line is not None:
            line.wake()

    def _sender(self, run: str) -> Callable[[str, int, bytes], bool]:
        return lambda path, start, content: self._context.engine.send_log(run, path, start, content)


@contextmanager
def _own_folder(repository: Repository) -> Iterator[Path]:
    tmp = repository.root / ".aop" / "tmp"
    tmp.mkdir(parents=True, exist_ok=True)
    with held_folder(tmp) as folder:
        yield folder


def _counted(counts: UsageFiles, head: _OrderHead) -> Json:
    usage: Json = msgspec.to_builtins(counts.usage_since(head.feature_id, head.role, since=""))
    return usage
