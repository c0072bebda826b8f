"""Supervisor: submits features to the engine and delivers answers to waiting runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.errors import Fault, Json
from aop.core.ids import CommitId, FeatureId, RunId
from aop.core.roles import Role
from aop.core.run import ENDED, Engine, RunState
from aop.kernel.config.gates import Mode
from aop.kernel.features.endings import ending_of
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import SUPERVISOR, Principal
from aop.kernel.merges.base_moves import ready_features_behind
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.documents.runs import WorkRequest
from aop.kernel.record.port import Event as JournalEvent
from aop.kernel.record.port import newest_seq
from aop.kernel.record.repeats import repeated
from aop.kernel.record.requests import is_paused, wait_of
from aop.supervisor.board import NOBODY, Board, BoardEntry
from aop.supervisor.feature_run import AGAIN, PRIORITY, WAY, FeatureOrder, RunLimits
from aop.supervisor.notices import Attention
from aop.supervisor.policy.conflicts import FOLLOW_BASE
from aop.supervisor.workers import ProviderChoice

LOOK_SECONDS = 0.2
CLEARS_THE_WAY = (
    *("feature_merged", "feature_deleted", "plan_revised", "plan_accepted"),
    *("lock_released", "stale_lock_reclaimed", "status_changed"),
)
"""The events after which a waiting feature may continue."""
NO_DEPENDENCIES: Mapping[FeatureId, tuple[FeatureId, ...]] = {}
RENEWALS = 3
"""How often a lock is renewed during its lease."""


class Supervisor:
    """One process that supervises the features of one repository."""

    def __init__(self, gateway: Gateway, engine: Engine, board: Board, attention: Attention) -> None:
        self._gateway = gateway
        self._engine = engine
        self._board = board
        self._attention = attention
        self._renew_at = 0.0
        self._base: CommitId | None = None
        self._seen_up_to: dict[FeatureId, tuple[BoardEntry, int]] = {}
        """Of waiting features: the newest journal entry that was checked."""
        self.run_name = gateway.kernel.new_id("run")

    def record_start(
        self,
        started_by: str,
        features: Sequence[FeatureId],
        providers: Mapping[Role, ProviderChoice],
        limits: RunLimits,
        *,
        failing_base: str = "",
    ) -> None:
        """Record who started this run, its features, its agents and a failing base (AOP-315)."""
        order: Json = {
            "run": self.run_name,
            "started_by": started_by,
            "features": list(features),
            "providers": msgspec.to_builtins(providers),
            "limits": msgspec.to_builtins(limits),
            "unfinished_gates": list(self._unfinished_gates()),
            "failing_base": failing_base[:2000],
        }
        answer = self._gateway.call(SUPERVISOR, "run.began", {"order": order})
        if answer.error is not None:
            raise Fault(f"The start of the run cannot be recorded: {answer.error['message']}")

    def _unfinished_gates(self) -> tuple[str, ...]:
        """Return the features whose gates were running when an earlier process ended."""
        known = self._engine.states("f.").items()
        return tuple(sorted({_feature_of(key) for key, state in known if key.endswith(".gate") and state not in ENDED}))

    def submit(
        self, features: Sequence[FeatureId], depends_on: Mapping[FeatureId, tuple[FeatureId, ...]] = NO_DEPENDENCIES
    ) -> None:
        """Bring features to `ready_to_merge`: unfinished runs continue, others start."""
        known = self._runs_of(features)
        policy = self._gateway.kernel.config().policy
        for number, feature_id in enumerate(dict.fromkeys(features)):
            key = self._run_key(feature_id, known.get(feature_id, {}))
            self._board.enter(feature_id, key)
            wanted = FeatureOrder(
                feature_id=feature_id,
                depends_on=depends_on.get(feature_id, ()),
                again=self._is_restart_requested(feature_id),
                run_name=self.run_name,
                collision_strategy=policy.supervisor.collision_strategy,
                qa=policy.supervisor.qa,
                qa_after=Mode(policy.gates.qa_after),
            )
            self._engine.submit("feature", msgspec.to_builtins(wanted), key=key, priority=PRIORITY + number)

    def _is_restart_requested(self, feature_id: FeatureId) -> bool:
        with self._gateway.kernel.record.read() as view:
            request = view.get(WorkRequest, feature_id)
        return request is not None and request.again

    def _runs_of(self, features: Sequence[FeatureId]) -> dict[FeatureId, dict[RunId, RunState]]:
        """Return the engine's runs of some features; one query for all, because each reads every run."""
        found: dict[FeatureId, dict[RunId, RunState]] = {}
        for key, state in self._engine.states(f"f.{features[0]}." if len(features) == 1 else "f.").items():
            if "/" not in key:
                found.setdefault(_feature_of(key), {})[key] = state
        return found

    def _run_key(self, feature_id: FeatureId, known: Mapping[RunId, RunState]) -> RunId:
        """Return the key of a feature's unfinished run, or a new one; runs that have ended are removed."""
        # A key is never used twice, even if the engine's file was lost: operation ids contain it.
        for key, state in known.items():
            if state not in ENDED:
                return key
            self._engine.forget(key)
        return RunId(f"f.{feature_id}.{self._gateway.kernel.new_id('run').removeprefix('run-')}")

    def unfinished_features(self) -> tuple[FeatureId, ...]:
        """Return the features that an earlier process left unfinished; runs of deleted ones are cancelled."""
        left = [key for key, state in self._engine.states("f.").items() if "/" not in key and state not in ENDED]
        with self._gateway.kernel.record.read() as view:
            endings = {key: ending_of(view, _feature_of(key)) for key in left}
        for key, ending in endings.items():
            if ending is not None:
                self._engine.cancel(key)
        return tuple(_feature_of(key) for key, ending in endings.items() if ending is None)

    def supervise(
        self,
        *,
        until: Literal["settled", "ended"],
        stopped: Callable[[], bool],
        report: Callable[[], None] = lambda: None,
    ) -> None:
        """Work until every feature has ended, or needs a person or another feature; call `report` on each pass."""
        # Each part of a pass may be done again.
        while not repeated(stopped):
            report()
            seen = self._board.entries()
            for part in (self.follow_base, self.take_requests, self.deliver_answers, self.renew_locks):
                repeated(part)
            repeated(self._attention.look, seen)
            resting = ("ended",) if until == "ended" else ("ended", "asks", "waits", "rests")
            # A feature that began to wait during this pass gets one more look.
            is_looked_at = seen == self._board.entries()
            is_settled = is_looked_at and all(entry.does in resting for entry in seen.values())
            if is_settled and self._are_ends_recorded(seen):
                return
            self._board.await_change(LOOK_SECONDS)

    def _are_ends_recorded(self, seen: Mapping[FeatureId, BoardEntry]) -> bool:
        """Tell whether the engine has recorded every end; otherwise the next process would repeat it."""
        ended = [entry.run_id for entry in seen.values() if entry.does == "ended"]
        known = self._engine.states("f.")
        return all(run_id not in known or known[run_id] in ENDED for run_id in ended)

    def follow_base(self) -> None:
        """When the base branch moved, try every ready feature against it; one that conflicts is requested again."""
        kernel = self._gateway.kernel
        head = kernel.git.branches.head(kernel.config().policy.worktree.base_branch)
        if head == self._base:
            return
        self._base = head
        for state in ready_features_behind(kernel):
            self._gateway.call(SUPERVISOR, FOLLOW_BASE, {"feature_id": state.feature_id})

    def renew_locks(self) -> None:
        """Renew the locks of every active feature (AOP-230), several times during a lease."""
        kernel = self._gateway.kernel
        now = kernel.clock.boot_seconds()
        if now < self._renew_at:
            return
        self._renew_at = now + kernel.config().policy.locks.lease_ttl_seconds / RENEWALS
        with kernel.record.read() as view:
            known = [view.get(FeatureState, name) for name in self._board.entries()]
        states = [state for state in known if state is not None and state.status not in TERMINAL]
        who = Principal(role=Role.ORCHESTRATOR, actor="supervisor")
        for feature_id, resource in [(state.feature_id, name) for state in states for name in state.locks.held]:
            given: dict[str, Json] = {"feature_id": feature_id, "resource": resource, "wait_timeout_seconds": 0}
            self._gateway.call(who, "locks.acquire", given)

    def take_requests(self) -> None:
        """Submit features that people added during this run, and restart those that they want restarted."""
        with self._gateway.kernel.record.read() as view:
            requests = list(view.all(WorkRequest))
        for request in requests:
            name, entry = request.feature_id, self._board.entries().get(request.feature_id)
            if not request.again:
                self.submit([name], {name: request.depends_on})
                self._gateway.call(SUPERVISOR, "run.took", {"feature_id": name})
            elif entry is None or entry.does == "ended":
                self.submit([name])
            elif entry.topic.startswith(WAY):
                self._wake(name, entry, AGAIN)

    def deliver_answers(self) -> None:
        """Wake the runs whose question was answered, or whose conflict may be over."""
        entries = self._board.entries()
        cleared = self._clearing_events({name: each for name, each in entries.items() if each.does == "waits"})
        for feature_id, entry in entries.items():
            said = cleared.get(feature_id) or self._answer_for(feature_id, entry)
            if said is not None:
                self._wake(feature_id, entry, said)

    def _wake(self, feature_id: FeatureId, entry: BoardEntry, said: Json) -> None:
        if self._board.wake(feature_id, entry):
            self._engine.answer(entry.run_id, entry.topic, said)

    def _answer_for(self, feature_id: FeatureId, entry: BoardEntry) -> Json:
        if entry.does == "asks":
            return self._answer_to_question(entry)
        if entry.does == "sleeps":
            return self._end_of_wait(feature_id)
        if entry.does != "rests":
            return None
        with self._gateway.kernel.record.read() as view:
            return None if is_paused(view, feature_id) else "resumed"

    def _end_of_wait(self, feature_id: FeatureId) -> Json:
        """Return the answer to a feature that waits for a provider, when its time has come or a person ended it."""
        kernel = self._gateway.kernel
        with kernel.record.read() as view:
            wait = wait_of(view, feature_id)
        if wait is not None and not wait.is_over(kernel.clock.now()):
            return None
        if wait is not None:
            self._gateway.call(SUPERVISOR, "run.waited", {"feature_id": feature_id})
        return "resumed"

    def _answer_to_question(self, entry: BoardEntry) -> Json:
        question = self._question(entry.topic)
        if question is not None and question.is_overdue(self._gateway.kernel.clock.now()):
            given = {"feature_id": question.feature_id, "question_id": question.question_id}
            self._gateway.call(SUPERVISOR, "inbox.expire", given)
            question = self._question(entry.topic)
        if question is None:
            return None
        return NOBODY if question.closed_because else question.answer

    def _question(self, question_id: str) -> Question | None:
        with self._gateway.kernel.record.read() as view:
            return view.get(Question, question_id)

    def _clearing_events(self, waiting: Mapping[FeatureId, BoardEntry]) -> dict[FeatureId, str]:
        """Return the events that may end the wait of features; each journal entry is read once."""
        if not waiting:
            return {}
        after = {name: self._last_seen(name, each) for name, each in waiting.items()}
        with self._gateway.kernel.record.read() as view:
            newest = newest_seq(view)
            entries = list(view.journal(after=min(after.values()), kinds=CLEARS_THE_WAY))
        self._seen_up_to = {name: (each, newest) for name, each in waiting.items()}
        return {
            name: entry.event.kind
            for entry in entries
            for name, each in waiting.items()
            if entry.seq > after[name] and _clears_way(entry.event, name, each)
        }

    def _last_seen(self, feature_id: FeatureId, entry: BoardEntry) -> int:
        seen, newest = self._seen_up_to.get(feature_id, (None, 0))
        return newest if seen == entry else entry.since


def _feature_of(key: RunId) -> FeatureId:
    return FeatureId(key.split(".")[1])


def _clears_way(event: JournalEvent, feature_id: FeatureId, entry: BoardEntry) -> bool:
    """Tell whether an event may end a wait: of a conflicting feature, or its own if the kernel accepts its plan."""
    if event.feature_id == feature_id:
        return feature_id in entry.others
    # Events of a waiting feature must not wake another one: the two would wake each other for ever.
    is_over = event.kind != "status_changed" or event.payload.get("new") == "failed"
    return is_over and event.kind != "plan_accepted" and (not entry.others or event.feature_id in entry.others)


class Outlook(Struct, frozen=True, kw_only=True):
    """The features of a run at its end, by what they need."""

    asks: tuple[FeatureId, ...]
    failed: tuple[FeatureId, ...]
    waits: tuple[FeatureId, ...]
    rests: tuple[FeatureId, ...]
    ready: tuple[FeatureId, ...]


def outlook_of(board: Board) -> Outlook:
    """Return the features of a run by what they need."""
    found: dict[str, list[FeatureId]] = {"asks": [], "failed": [], "waits": [], "rests": [], "ready": []}
    for feature_id, entry in sorted(board.entries().items()):
        status = entry.outcome.get("status")
        ended = "ready" if status in ("ready_to_merge", "merged") and not entry.outcome["error"] else "failed"
        does = "waits" if entry.does == "sleeps" else entry.does
        found[ended if does in ("ended", "works") else does].append(feature_id)
    return Outlook(**{name: tuple(features) for name, features in found.items()})
