"""What is known of one feature on its way, what can happen to it, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.structs import Part
from aop.kernel.config.gates import Mode
from aop.kernel.config.policy import CollisionStrategy
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import HumanGate, Prerequisite
from aop.kernel.record.documents.usage import Overrun
from aop.supervisor.workers import ToolResult, WorkerOutput


class Rung(StrEnum):
    """How far the supervisor has gone to get a worker moving that goes in circles; each is tried once, in order."""

    NONE = "none"
    NUDGE = "nudge"
    OTHER_APPROACH = "other_approach"
    ASK = "ask"
    BLOCK = "block"


class Attempt(Part, frozen=True, kw_only=True):
    """One proposal of a worker in the present phase, and what became of it."""

    role: Role
    fingerprint: str
    """Of the proposal: the same one again is no progress."""
    outcome: str
    """Which tool refused it, with what code, and the line of the log that says most; empty while it is judged."""


class FeatureRun(Part, frozen=True, kw_only=True):
    """One feature on its way; all that a decision may depend on."""

    feature_id: FeatureId
    turns_allowed: int
    run_name: str = ""
    """The run that the feature was asked for in: what it costs counts there."""
    status: Status = Status.PLANNING
    turns: int = 0
    """How many turns workers took in this phase."""
    attempts: tuple[Attempt, ...] = ()
    rung: Rung = Rung.NONE
    asked: bool = False
    """Whether a person was asked for help in this phase."""
    results: tuple[ToolResult, ...] = ()
    """What the worker that is asked next is told."""
    pending: WorkerOutput | None = None
    """The proposal that tools judge now, and that is sent again when what it waits for is free."""
    role: Role = Role.PLANNER
    """Whose turn it is, or whose proposal is judged."""
    held_back: AskWorker | RunGates | None = None
    """What comes next when nobody pauses the feature any more, or when a person has raised a cap."""
    collision_strategy: CollisionStrategy = CollisionStrategy.REVISE
    """What the policy said of colliding plans when the feature was asked for."""
    revisions: int = 0
    """How often the plan met another feature's."""
    offered: bool = False
    """Whether a yes to what a person is asked makes a prerequisite, which this feature waits for."""


# --- what can happen -------------------------------------------------------------------------------


class Happened(Part, frozen=True, kw_only=True, tag_field="event"):
    """Something that the supervisor has to decide about."""


class Began(Happened, frozen=True, kw_only=True, tag="began"):
    """A person wants this feature; it may be new, or known from an earlier run."""


class ToolAnswered(Happened, frozen=True, kw_only=True, tag="tool_answered"):
    result: ToolResult
    mode: Mode | None = None
    """Of the gates that ran."""


class WorkerAnswered(Happened, frozen=True, kw_only=True, tag="worker_answered"):
    output: WorkerOutput


class WorkerFailed(Happened, frozen=True, kw_only=True, tag="worker_failed"):
    """A turn without an answer that could be used: nothing, no JSON, too late, too much."""

    error: Mapping[str, Any]


class TurnWithheld(Happened, frozen=True, kw_only=True, tag="turn_withheld"):
    """A turn was not taken, because a cap on cost is reached."""

    ask: AskWorker
    over: Overrun


class PersonAnswered(Happened, frozen=True, kw_only=True, tag="person_answered"):
    question: str
    answer: str


class NobodyAnswered(Happened, frozen=True, kw_only=True, tag="nobody_answered"):
    """What a person was asked was closed without an answer."""

    question: str


class WayCleared(Happened, frozen=True, kw_only=True, tag="way_cleared"):
    """Something that the feature waited for may be free now."""

    status: Status
    """What the feature is by now: a plan that waited in the kernel's own queue may have been let in."""


class HeldBack(Happened, frozen=True, kw_only=True, tag="held_back"):
    """A turn or a run of the gates did not begin, since a person paused the feature."""

    action: AskWorker | RunGates


class Resumed(Happened, frozen=True, kw_only=True, tag="resumed"):
    """Nobody pauses the feature any more."""


Event: TypeAlias = (
    Began
    | ToolAnswered
    | WorkerAnswered
    | WorkerFailed
    | TurnWithheld
    | PersonAnswered
    | NobodyAnswered
    | WayCleared
    | HeldBack
    | Resumed
)


# --- what can be done ------------------------------------------------------------------------------


class Deed(Part, frozen=True, kw_only=True, tag_field="action"):
    """Something that the supervisor does next."""


class CallTool(Deed, frozen=True, kw_only=True, tag="call_tool"):
    """Ends in `ToolAnswered`."""

    role: Role
    tool: str
    arguments: Mapping[str, Any] = {}


class RunGates(Deed, frozen=True, kw_only=True, tag="run_gates"):
    """Ends in `ToolAnswered`; takes a place among the gates that may run at once."""

    role: Role
    mode: Mode


class AskWorker(Deed, frozen=True, kw_only=True, tag="ask_worker"):
    """Ends in `WorkerAnswered`, `WorkerFailed` or `TurnWithheld`; takes a place among the turns that go on at once."""

    role: Role
    instructions: str
    results: tuple[ToolResult, ...]


class AskPerson(Deed, frozen=True, kw_only=True, tag="ask_person"):
    """Ends in `PersonAnswered`; the feature gives its place to another one."""

    question: str
    detail: Mapping[str, Any] = {}
    gate: HumanGate = "question"
    about: str = ""
    """Features that ask about the same get one answer."""
    choices: tuple[str, ...] = ()
    default: str | None = None
    """What counts as the answer if nobody gives one in time."""
    question_id: str = ""
    """Of what is in the inbox already; empty for what is to be put there."""
    prerequisite: Prerequisite | None = None
    """What a yes makes a feature of its own."""


class Await(Deed, frozen=True, kw_only=True, tag="await"):
    """Ends in `WayCleared`; the feature gives its place to another one."""

    reason: str
    features: tuple[str, ...]
    """Those that are in the way; the feature itself if the kernel keeps its plan, and lets it in."""


class AwaitMerged(Deed, frozen=True, kw_only=True, tag="await_merged"):
    """Ends in `Began`, anew, when all of them are merged; the feature gives its place to another one."""

    features: tuple[FeatureId, ...]


class Rest(Deed, frozen=True, kw_only=True, tag="rest"):
    """Ends in `Resumed`; the feature gives its place to another one."""


class Finish(Deed, frozen=True, kw_only=True, tag="finish"):
    """The run of this feature is over."""

    status: Status
    error: Mapping[str, Any] | None = None


Action: TypeAlias = CallTool | RunGates | AskWorker | AskPerson | Await | AwaitMerged | Rest | Finish
