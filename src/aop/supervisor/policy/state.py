"""State: one feature under supervision, its events and its actions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec.structs import replace

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.structs import Part
from aop.kernel.config.gates import Mode
from aop.kernel.config.policy import CollisionStrategy, QaTurns
from aop.kernel.gates.qa_index import Mark
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import HumanGate, Prerequisite
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.workers import ToolResult, WorkerOutput


class Rung(StrEnum):
    """How far the supervisor has escalated for a worker that goes in circles; in this order, each once."""

    NONE = "none"
    NUDGE = "nudge"
    OTHER_APPROACH = "other_approach"
    ASK = "ask"
    BLOCK = "block"


class Attempt(Part, frozen=True, kw_only=True):
    """One proposal of a worker in the current phase, and its outcome."""

    role: Role
    fingerprint: str
    """Of the proposal: the same one again is not progress."""
    outcome: str
    """The tool, the code and the most telling log line of the refusal; empty while it is judged."""


class Review(StrEnum):
    """How far QA is with the turn that the policy wants for each feature, before the full gates."""

    NONE = "none"
    DUE = "due"
    OPEN = "open"


class FeatureRun(Part, frozen=True, kw_only=True):
    """One feature under supervision: everything that a decision may depend on."""

    feature_id: FeatureId
    turns_allowed: int
    run_name: str = ""
    """The run that requested the feature; its cost counts there."""
    status: Status = Status.PLANNING
    turns: int = 0
    """The number of turns taken in this phase."""
    attempts: tuple[Attempt, ...] = ()
    rung: Rung = Rung.NONE
    asked: bool = False
    """Whether a person was asked for help in this phase."""
    results: tuple[ToolResult, ...] = ()
    """The results that the next worker is given."""
    pending: WorkerOutput | None = None
    """The proposal under judgement; it is submitted again when the conflict is over."""
    role: Role = Role.PLANNER
    """The role that takes the turn, or whose proposal is judged."""
    held_back: AskWorker | RunGates | None = None
    """The action that follows when a pause ends or a person raises a cap."""
    collision_strategy: CollisionStrategy = CollisionStrategy.REVISE
    """The policy's strategy for colliding plans when the feature was requested."""
    qa: QaTurns = QaTurns.ON_FAILURE
    """The policy's choice of QA's turns when the feature was requested."""
    qa_after: Mode = Mode.FAST
    """The gates after which the policy lets a feature get to QA, when it was requested."""
    review: Review = Review.NONE
    claims: tuple[Mark, ...] = ()
    """Hunks that QA calls passed; the index takes them when the full gates prove it."""
    proof: str = ""
    """The gate run that proves the claims, while they are recorded."""
    revisions: int = 0
    """How often the plan collided."""
    fault: Mapping[str, Any] | None = None
    """The fault of the worker that a person is asked about; None while there is no such question."""
    conflict: ToolResult | None = None
    """The conflict with the base branch that the builder resolves; None once its gates pass."""
    conflict_asked: bool = False
    """Whether the open question is about that conflict."""
    quota_waits: int = 0
    """How often an older AOP let the turn wait; now the waits for a provider are counted in the record."""
    offered: bool = False
    """Whether a yes to the open question creates a prerequisite, which this feature then waits for."""


def fresh_run(run: FeatureRun) -> FeatureRun:
    """Return a feature's run from its beginning, with the policy that it was requested under."""
    return FeatureRun(
        feature_id=run.feature_id,
        turns_allowed=run.turns_allowed,
        run_name=run.run_name,
        collision_strategy=run.collision_strategy,
        qa=run.qa,
        qa_after=run.qa_after,
    )


def with_fresh_phase(run: FeatureRun) -> FeatureRun:
    """Return a run at the beginning of a phase."""
    return replace(run, turns=0, attempts=(), rung=Rung.NONE, results=(), pending=None, revisions=0, asked=False)


class EventBase(Part, frozen=True, kw_only=True, tag_field="event"):
    """An event: the supervisor decides about it."""


class Began(EventBase, frozen=True, kw_only=True, tag="began"):
    """A person requested this feature; it may be new, or known from an earlier run."""


class ToolAnswered(EventBase, frozen=True, kw_only=True, tag="tool_answered"):
    result: ToolResult
    mode: Mode | None = None
    """Of the gates that ran."""


class WorkerAnswered(EventBase, frozen=True, kw_only=True, tag="worker_answered"):
    output: WorkerOutput


class WorkerFailed(EventBase, frozen=True, kw_only=True, tag="worker_failed"):
    """A turn without a usable answer: a crash, a timeout, no log-in, invalid JSON, too much output."""

    error: Mapping[str, Any]


class TurnWithheld(EventBase, frozen=True, kw_only=True, tag="turn_withheld"):
    """A turn was not taken, because a cost cap is reached."""

    ask: AskWorker
    over: Overrun


class TurnPostponed(EventBase, frozen=True, kw_only=True, tag="turn_postponed"):
    """A turn met a trouble of its model's provider, or did not begin because the provider has one."""

    ask: AskWorker
    error: Mapping[str, Any]
    at: str
    """The time, in UTC."""
    provider: str = "model"
    since: str = ""
    """When the turn began, in UTC; empty: it did not."""
    waits: int = 0
    """How many waits for the provider came before in a row."""
    until: str = ""
    """The end of the wait that holds the turn back; empty if it met the trouble itself."""
    is_asked: bool = False
    """Whether an open question about the provider holds the turn back."""


class PersonAnswered(EventBase, frozen=True, kw_only=True, tag="person_answered"):
    question: str
    answer: str


class NobodyAnswered(EventBase, frozen=True, kw_only=True, tag="nobody_answered"):
    """A question was closed without an answer."""

    question: str


class WayCleared(EventBase, frozen=True, kw_only=True, tag="way_cleared"):
    """The conflict that the feature waited for may be over."""

    status: Status
    """The feature's current status: the kernel may have accepted a queued plan."""
    moved: bool = False
    """Whether the feature is on another base now: a patch that waits no longer fits."""


class HeldBack(EventBase, frozen=True, kw_only=True, tag="held_back"):
    """A turn or gate run did not start, because the feature is paused."""

    action: AskWorker | RunGates


class Resumed(EventBase, frozen=True, kw_only=True, tag="resumed"):
    """The feature's pause has ended."""


Event: TypeAlias = (
    Began
    | ToolAnswered
    | WorkerAnswered
    | WorkerFailed
    | TurnWithheld
    | TurnPostponed
    | PersonAnswered
    | NobodyAnswered
    | WayCleared
    | HeldBack
    | Resumed
)


class ActionBase(Part, frozen=True, kw_only=True, tag_field="action"):
    """An action: the supervisor performs it next."""


class CallTool(ActionBase, frozen=True, kw_only=True, tag="call_tool"):
    """Ends in `ToolAnswered`."""

    role: Role
    tool: str
    arguments: Mapping[str, Any] = {}


class RunGates(ActionBase, frozen=True, kw_only=True, tag="run_gates"):
    """Ends in `ToolAnswered`; takes one of the places for gate runs."""

    role: Role
    mode: Mode


class AskWorker(ActionBase, frozen=True, kw_only=True, tag="ask_worker"):
    """Ends in `WorkerAnswered`, `WorkerFailed` or `TurnWithheld`; takes one of the places for turns."""

    role: Role
    instructions: str
    results: tuple[ToolResult, ...]


class AskPerson(ActionBase, frozen=True, kw_only=True, tag="ask_person"):
    """Ends in `PersonAnswered`; the feature gives its place to another one."""

    question: str
    detail: Mapping[str, Any] = {}
    gate: HumanGate = "question"
    about: str = ""
    """Questions with the same subject share one answer."""
    since: str = ""
    """When the cause arose: an answer to such a question that was given later counts; empty: only an open one does."""
    choices: tuple[str, ...] = ()
    default: str | None = None
    """The answer that counts if none is given in time."""
    question_id: str = ""
    """The id of a question that is already in the inbox; empty for a new one."""
    prerequisite: Prerequisite | None = None
    """The feature that a yes creates."""


class Await(ActionBase, frozen=True, kw_only=True, tag="await"):
    """Ends in `WayCleared`; the feature gives its place to another one."""

    reason: str
    features: tuple[str, ...]
    """The conflicting features; the feature itself if its plan is in the kernel's queue."""


class AwaitMerged(ActionBase, frozen=True, kw_only=True, tag="await_merged"):
    """Ends in `Began` when all of them are merged; the feature gives its place to another one."""

    features: tuple[FeatureId, ...]


class Rest(ActionBase, frozen=True, kw_only=True, tag="rest"):
    """Ends in `Resumed`; the feature gives its place to another one."""


class WaitUntil(ActionBase, frozen=True, kw_only=True, tag="wait_until"):
    """Ends in `Resumed` at a moment; the feature gives its place to another one."""

    until: str
    reason: str
    provider: str = "model"
    """The provider of models that it waits for, with its other features."""
    since: str = ""
    """When the turn that met the trouble began."""


class Finish(ActionBase, frozen=True, kw_only=True, tag="finish"):
    """The run of this feature is over."""

    status: Status
    error: Mapping[str, Any] | None = None


Action: TypeAlias = CallTool | RunGates | AskWorker | AskPerson | Await | AwaitMerged | Rest | WaitUntil | Finish
LegEnding: TypeAlias = AskPerson | Await | AwaitMerged | Rest | WaitUntil | Finish
"""An action that waits without a place, or the end."""
