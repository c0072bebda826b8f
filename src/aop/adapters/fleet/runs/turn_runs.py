"""Turn runs: the orders of the queue `agents`, carried out on this worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

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
        clones, worker = self._context.clones, self._context.liveness.id
        repository = clones.have(ordered.repository, ordered.hub, ordered.ref, CommitId(ObjectId(ordered.commit)))
        clones.follow_base(repository, head.config.policy.worktree.base_branch, CommitId(ObjectId(head.base_commit)))
        counts, logs = UsageFiles(repository.root), repository.root / _LOGS / head.feature_id
        # Those of an earlier turn would be taken for this one's.
        counts.remove(head.feature_id, head.role)
        names = f"{head.role}*.log"
        _remove_logs(logs, names)
        line = TurnLine(self._context.engine, run, worker, lambda: _counted(counts, head))
        shown, send = f"{_LOGS}/{head.feature_id}", self._sender(run)
        self._lines[run] = line
        try:
            with line, LogParts(logs, shown, send, names=names) as parts:
                place = TurnPlace(
                    order=ordered.order,
                    repository=repository,
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


def _counted(counts: UsageFiles, head: _OrderHead) -> Json:
    usage: Json = msgspec.to_builtins(counts.usage_since(head.feature_id, head.role, since=""))
    return usage


def _remove_logs(folder: Path, names: str) -> None:
    for path in folder.glob(names):
        path.unlink(missing_ok=True)
