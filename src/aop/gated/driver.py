"""Driver: gives an agent turns until the workflow is done or needs a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aop.core.clock import later, timestamp
from aop.core.errors import Json, ModelQuotaReached, NoUsableAnswer, NoWorkflow
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.gated.machine.master_plan import is_done
from aop.gated.machine.position import GET_TASK, SUBMIT_WORK
from aop.gated.machine.state import Phase, Workflow
from aop.gated.session.documents import GatedWorkflow
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.merges.merge import base_head
from aop.kernel.record.documents.usage import Overrun, Usage
from aop.kernel.record.spending import overrun

ENDS_A_TURN = frozenset({SUBMIT_WORK, "request_scope_reduction", "escalate_for_external_help"})
"""These calls end a turn: later calls of the same turn would not know their result (GATED-03)."""


class DriveEnding(StrEnum):
    """Why a drive ended."""

    DONE = "done"
    WAITS_FOR_APPROVAL = "waits_for_approval"
    HALTED = "halted"
    ESCALATED = "escalated"
    NOT_REVIEWED = "not_reviewed"
    REFUSED = "refused"
    NO_PROGRESS = "no_progress"
    TURNS_USED_UP = "turns_used_up"
    TIME_IS_UP = "time_is_up"
    COST_CAP = "cost_cap"
    QUOTA_REACHED = "quota_reached"


class DriveEnded(Struct, frozen=True, kw_only=True):
    """The end of a drive."""

    ending: DriveEnding
    message: str
    turns: int = 0
    error: Mapping[str, Json] | None = None
    """The refusal, if it ended with one."""


class DriveLimits(Struct, frozen=True, kw_only=True):
    """The limits of a drive."""

    turns: int
    seconds: float
    idle_turns: int = 5
    """The number of turns in a row without a change that ends the drive."""


class TurnInput(Struct, frozen=True, kw_only=True):
    """The input of a turn; the agent needs no memory (GATED-04)."""

    feature_id: FeatureId
    task: Mapping[str, Any]
    """The current answer of `get_task`."""
    last_tool_results: tuple[Mapping[str, Any], ...]
    seconds: float


class WantedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that the driver makes for an agent without MCP."""

    tool: str
    arguments: Mapping[str, Any] = {}


class TurnOutput(Struct, frozen=True, kw_only=True):
    """The output of a turn, besides what the record has."""

    calls: tuple[WantedCall, ...] = ()
    usage: Usage | None = None
    note: str = ""


class Agent(Protocol):
    """An agent that works on a workflow, turn by turn."""

    @property
    def provider(self) -> str:
        """Return the coding agent's provider."""

    @property
    def model(self) -> str | None:
        """Return its model; None if not chosen."""

    def turn(self, given: TurnInput) -> TurnOutput:
        """Take a turn. Raises: NoUsableAnswer; its fact `usage` has the cost of the turn."""


class Drive:
    """One drive of one agent on one workflow."""

    def __init__(
        self, gateway: Gateway, name: FeatureId, agent: Agent, allowed: DriveLimits, tell: Callable[[str], None]
    ) -> None:
        self._gateway = gateway
        self._kernel = gateway.kernel
        self._name = name
        self._agent = agent
        self._allowed = allowed
        self._tell = tell
        self._run = self._kernel.new_id("gated")
        self._who = Principal(role=Role.SWE, actor=f"{Role.SWE}:{name}", features=frozenset({name}))
        self._turns, self._idle = 0, 0
        self._results: tuple[Mapping[str, Any], ...] = ()

    def to_the_end(self) -> DriveEnded:
        """Take turns until the drive ends. Raises: NoWorkflow, and refusals that prevent the agent's start."""
        deadline = self._kernel.clock.boot_seconds() + self._allowed.seconds
        while True:
            task = self._gateway.call(self._who, GET_TASK, {})
            left = deadline - self._kernel.clock.boot_seconds()
            ended = reason_to_stop(task, self._known().workflow, self._plan()) or self._used_up(left)
            if ended is not None:
                return msgspec.structs.replace(ended, turns=self._turns)
            before = self._known()
            ended = self._take_turn(task.data, left)
            if ended is not None:
                return msgspec.structs.replace(ended, turns=self._turns)
            self._idle = self._idle + 1 if _is_unchanged(before, self._known()) else 0

    def _known(self) -> GatedWorkflow:
        with self._kernel.record.read() as view:
            known = view.get(GatedWorkflow, self._name)
        if known is None:
            raise NoWorkflow(f"There is no workflow `{self._name}`.")
        return known

    def _plan(self) -> str:
        git, known = self._kernel.git, self._known()
        entry = git.objects.entry(
            git.objects.tree_of(base_head(self._kernel, self._kernel.config())), known.master_plan
        )
        return "" if entry is None else git.objects.blob(entry.oid).decode(errors="replace")

    def _used_up(self, left: float) -> DriveEnded | None:
        with self._kernel.record.read() as view:
            over = overrun(view, self._kernel.config().policy.cost, self._name, self._run)
        return exhausted_limit(self._allowed, turns=self._turns, idle=self._idle, left=left, over=over)

    def _take_turn(self, task: Mapping[str, Any], left: float) -> DriveEnded | None:
        """Take a turn; return the end of the drive if the model's quota is reached."""
        given = TurnInput(feature_id=self._name, task=task, last_tool_results=self._results, seconds=left)
        self._turns += 1
        try:
            taken = self._agent.turn(given)
        except NoUsableAnswer as refusal:
            self._tell(f"turn {self._turns}: {self._kernel.redact(refusal.message)}")
            self._record_turn(refusal.facts.get("usage"), answered=False)
            self._results = ({"ok": False, "error": refusal.as_error()},)
            return self._at_quota(refusal) if isinstance(refusal, ModelQuotaReached) else None
        self._record_turn(msgspec.to_builtins(taken.usage), answered=True)
        if taken.note:
            self._tell(f"turn {self._turns}: {self._kernel.redact(taken.note)}")
        self._results = self._make_calls(taken.calls)
        return None

    def _at_quota(self, refusal: ModelQuotaReached) -> DriveEnded:
        after, moment = refusal.facts.get("retry_after_seconds"), str(refusal.facts.get("retry_at") or "")
        if not moment and isinstance(after, (int, float)):
            moment = timestamp(later(self._kernel.clock.now(), float(after)))
        when = f"It names a time: {moment[:16].replace('T', ' ')} UTC." if moment else "It names no time."
        message = f"{self._kernel.redact(refusal.message)} {when}"
        return DriveEnded(ending=DriveEnding.QUOTA_REACHED, message=message)

    def _make_calls(self, calls: tuple[WantedCall, ...]) -> tuple[Mapping[str, Any], ...]:
        """Make the calls, up to the first that ends the turn or fails."""
        results: list[Mapping[str, Any]] = []
        for wanted in calls:
            answer = self._gateway.call(self._who, wanted.tool, wanted.arguments)
            results.append({"tool": wanted.tool, **answer.as_json()})
            if wanted.tool in ENDS_A_TURN or answer.error is not None or answer.data.get("success") is False:
                break
        return tuple(results)

    def _record_turn(self, usage: Json, *, answered: bool) -> None:
        who = Principal(role=Role.SYSTEM, actor="system")
        arguments = {
            "feature_id": self._name,
            "worker": Role.SWE,
            "run": self._run,
            "provider": self._agent.provider,
            "model": self._agent.model,
            "usage": usage,
            "answered": answered,
        }
        self._gateway.call(who, "usage.record", arguments)


def _is_unchanged(before: GatedWorkflow, after: GatedWorkflow) -> bool:
    return all(getattr(before, name) == getattr(after, name) for name in ("workflow", "head", "tree", "draft"))


def reason_to_stop(task: Envelope, known: Workflow, plan: str) -> DriveEnded | None:
    """Return why the agent has nothing to do now; None if it has."""
    if task.error is not None:
        return DriveEnded(ending=DriveEnding.REFUSED, message=str(task.error["message"]), error=task.error)
    if known.escalated:
        return DriveEnded(ending=DriveEnding.ESCALATED, message="A person was asked for help and has not answered yet.")
    if known.status in RESTING:
        return DriveEnded(ending=RESTING[known.status], message=_reason(task.data["task"]))
    if known.status is Phase.INITIALIZING and known.plan is None and is_done(plan):
        return DriveEnded(ending=DriveEnding.DONE, message="Every pull request of the master plan is merged.")
    return None


RESTING: Mapping[Phase, DriveEnding] = {
    Phase.HALTED: DriveEnding.HALTED,
    Phase.MERGING_BRANCH: DriveEnding.WAITS_FOR_APPROVAL,
    # After `get_task`, only a failed review leaves the workflow here.
    Phase.CODE_REVIEW: DriveEnding.NOT_REVIEWED,
}


def _reason(task: str) -> str:
    goal, _, reason = task.partition("\n\n")
    return reason.partition("\n\nCall `get_task`")[0] or goal


def exhausted_limit(
    allowed: DriveLimits, *, turns: int, idle: int, left: float, over: Overrun | None
) -> DriveEnded | None:
    """Return the limit that is exhausted; None if none is."""
    if over is not None:
        message = f"The {over.scope}'s cap of {over.cap:g} {over.figure} is reached."
        return DriveEnded(ending=DriveEnding.COST_CAP, message=message)
    if idle >= allowed.idle_turns:
        return DriveEnded(
            ending=DriveEnding.NO_PROGRESS, message=f"The agent changed nothing in {count(idle, 'turn')}."
        )
    if turns >= allowed.turns:
        return DriveEnded(ending=DriveEnding.TURNS_USED_UP, message=f"The limit of {count(turns, 'turn')} is reached.")
    if left <= 0:
        return DriveEnded(
            ending=DriveEnding.TIME_IS_UP, message=f"The limit of {allowed.seconds:g} seconds is reached."
        )
    return None
