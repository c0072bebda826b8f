"""Ordered turns: the leader's side of turns on other machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import msgspec

from aop.adapters.agents.orders.turn_orders import TurnAnswer, order_of, refusal_of
from aop.adapters.agents.turn_logs import AGENT_LOGS, fresh_log
from aop.adapters.models.metering.usage_files import MeterCount, UsageFiles
from aop.adapters.processes.step_log import StepLog
from aop.core.errors import (
    AgentTimedOut,
    Fault,
    ForbiddenToolForRole,
    HubUnavailable,
    InternalError,
    Json,
    WorkerFailed,
)
from aop.core.ids import CommitId, FeatureId
from aop.kernel.config.policy import Sessions
from aop.kernel.features.lifecycle import stopped_reason
from aop.kernel.gateway.calls import Kernel, refusal_envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR, Principal
from aop.kernel.ports.fleet import LeaderSide, LogPart, TurnRun, TurnWorkers
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.usage import FIGURES, OpenTurn, Usage
from aop.supervisor.workers import Worker, WorkerInput, WorkerOutput

_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
_NOTHING: Mapping[str, Json] = dict.fromkeys(FIGURES, 0)
"""The cost of a turn that never began: known, and none."""
Tell = Callable[[FeatureId, str], None]


class OrderedWorker:
    """Implements `aop.supervisor.workers.Worker`: by a worker elsewhere, or by one here while there is none."""

    def __init__(self, turns: OrderedTurns, here: Worker) -> None:
        self._turns = turns
        self._here = here

    def turn(self, given: WorkerInput) -> WorkerOutput:
        return self._turns.output(given) or self._here.turn(given)


class OrderedTurns:
    """Orders the turns of one run of the supervisor."""

    def __init__(self, gateway: Gateway, workers: TurnWorkers, root: Path, tell: Tell) -> None:
        self._gateway = gateway
        self._workers = workers
        self._root = root
        self._tell = tell
        self._said = ""

    def output(self, given: WorkerInput) -> WorkerOutput | None:
        """Return the output of a turn elsewhere; None, after a line that says why, if it must be taken here.

        Raises: the refusal with which the turn ended.
        """
        answer, why = None, self._stays_here() or self._workers.unavailable()
        try:
            answer = None if why else self._answer(given)
        except (HubUnavailable, WorkerFailed) as refusal:
            why = refusal.message
        if answer is None or answer.unable:
            self._say_once(given.feature_id, answer.unable if answer else why or "every worker has gone")
            self._assign(given, "")
            return None
        self._said = ""
        if answer.refusal is not None:
            raise refusal_of(answer.refusal)
        return answer.output

    def _stays_here(self) -> str:
        if self._gateway.kernel.config().policy.supervisor.sessions is Sessions.RESUME:
            return "`supervisor.sessions: resume` keeps the agents' sessions here"
        return ""

    def _say_once(self, feature_id: FeatureId, why: str) -> None:
        if why != self._said:
            self._said = why
            self._tell(feature_id, f"turns run on this machine: {why}")

    def _answer(self, given: WorkerInput) -> TurnAnswer | None:
        kernel = self._gateway.kernel
        order, key = order_of(kernel, given), kernel.new_id("turn")
        commit = _commit_of(kernel, order.documents.state)
        value: Mapping[str, Json] = msgspec.to_builtins(order)
        with _TurnLogs(kernel, self._root, given) as logs:
            leader = self._leader_side(given, key, logs)
            name = f"{given.feature_id}.{given.role}"
            ran = self._workers.run(value, commit, name=name, key=key, leader=leader)
        answer = _answer_in(ran)
        for worker, usage in ran.attempts.items():
            if answer is None or worker != answer.worker:
                self._count_lost(given, worker, usage)
        if answer is None and (reason := stopped_reason(kernel, given.feature_id)):
            raise AgentTimedOut(f"The agent was stopped before it began: {reason}", usage=_NOTHING)
        return answer

    def _leader_side(self, given: WorkerInput, key: str, logs: _TurnLogs) -> LeaderSide:
        kernel, feature_id, role = self._gateway.kernel, given.feature_id, given.role
        # The identity is that of the order; an agent elsewhere has no word in it.
        who = Principal(role=role, actor=f"{role}:{feature_id}", features=frozenset({feature_id}), turn=key)
        counts, since = UsageFiles(self._root), kernel.now()

        def on_worker(worker: str) -> None:
            self._tell(feature_id, f"{role}: its turn runs on the worker {worker}")
            self._assign(given, worker)

        def on_count(usage: Json) -> None:
            counts.store(feature_id, role, MeterCount(since=since, usage=msgspec.convert(usage, Usage)))

        return LeaderSide(
            on_worker=on_worker,
            on_log=logs.take,
            on_count=on_count,
            answer=lambda tool, arguments: self._tool_answer(who, tool, arguments),
            stopped=lambda: stopped_reason(kernel, feature_id),
        )

    def _tool_answer(self, who: Principal, name: str, arguments: Json) -> Json:
        """Answer a call of an agent elsewhere: it may read what its role may read, and changes nothing here."""
        tool = self._gateway.tools.get(name)
        if tool is not None and tool.mutates:
            refusal = ForbiddenToolForRole(f"A turn elsewhere may not call `{name}` here.", role=who.role, tool=name)
            return refusal_envelope(refusal).as_json()
        try:
            return self._gateway.call(who, name, arguments).as_json()
        except Fault as fault:
            self._tell(FeatureId(who.actor.partition(":")[2]), f"{who.role}: {name}: {fault}")
            return refusal_envelope(InternalError(f"AOP broke while `{name}` was called.")).as_json()

    def _count_lost(self, given: WorkerInput, worker: str, usage: Json) -> None:
        """Count an attempt whose worker was lost, as a killed turn: as far as its meter told, or as unknown."""
        turn = self._open_turn(given)
        self._tell(given.feature_id, f"{given.role}: the worker {worker} was lost in its turn; its cost counts")
        if turn is not None:
            facts = {name: getattr(turn, name) for name in ("feature_id", "worker", "run", "provider", "model")}
            lost = {**facts, "usage": usage, "answered": False, "on_worker": worker}
            self._gateway.call(SUPERVISOR, "usage.record", lost)

    def _assign(self, given: WorkerInput, worker: str) -> None:
        """Record which worker takes the turn; none for one that is taken here."""
        turn = self._open_turn(given)
        if turn is not None and (turn.on_worker or "") != worker:
            taken = {"feature_id": given.feature_id, "turn": turn.turn, "on_worker": worker}
            self._gateway.call(SUPERVISOR, "usage.assign", taken)

    def _open_turn(self, given: WorkerInput) -> OpenTurn | None:
        with self._gateway.kernel.record.read() as view:
            own = (given.feature_id, given.role)
            return next((turn for turn in view.all(OpenTurn) if (turn.feature_id, turn.worker) == own), None)


class _TurnLogs:
    """The logs of a turn elsewhere, as files of this machine: without its secrets, and bounded."""

    def __init__(self, kernel: Kernel, root: Path, given: WorkerInput) -> None:
        self._kernel = kernel
        self._given = given
        self._logs = root / AGENT_LOGS
        self._most = kernel.config().policy.execution.max_log_bytes
        self._open: dict[str, tuple[StepLog, int]] = {}

    def __enter__(self) -> _TurnLogs:
        return self

    def __exit__(self, *_raised: object) -> None:
        for log, _size in self._open.values():
            log.close()

    def take(self, part: LogPart) -> None:
        """Append the part that comes next; another worker begins each log anew."""
        path = PurePosixPath(part.path)
        is_own = path.parent.name == self._given.feature_id and path.suffix == ".log"
        if not is_own or path.stem.partition("-")[0] != self._given.role:
            return
        if part.offset == 0:
            if path.stem in self._open:
                self._open[path.stem][0].close()
            made = fresh_log(self._logs, self._given.feature_id, path.stem)
            self._open[path.stem] = (StepLog(made, self._kernel.redact, max_bytes=self._most), 0)
        log, size = self._open.get(path.stem, (None, -1))
        if log is not None and part.offset == size:
            log.feed(part.content)
            self._open[path.stem] = (log, size + len(part.content))


def _commit_of(kernel: Kernel, state: FeatureState) -> CommitId:
    """Return a commit of a feature's tree on its base."""
    objects = kernel.git.objects
    if objects.tree_of(state.base_commit) == state.tree:
        return state.base_commit
    return objects.commit(state.tree, [state.base_commit], f"Turn of {state.feature_id}\n", when=_WHEN)


def _answer_in(ran: TurnRun) -> TurnAnswer | None:
    if ran.answer is None:
        return None
    try:
        answer = msgspec.convert(ran.answer, TurnAnswer)
    except msgspec.ValidationError as error:
        raise WorkerFailed(f"A worker's answer is not that of a turn: {error}") from error
    if answer.output is None and answer.refusal is None and not answer.unable:
        raise WorkerFailed("A worker's answer to a turn is empty.")
    return answer
