"""The steps of a ticket's run: each is done once and recorded, and what one refuses is data until all is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits
from aop.brains.ports import Brain
from aop.core.clock import Clock, timestamp
from aop.core.errors import Fault, InternalError, Json, Refusal
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor, mask_json
from aop.core.run import Steps
from aop.tickets.ports import DocsPort, TrackerPort, VcsPort

COMMENT_CHARS = 30_000
"""What trackers take: Jira has 32,767."""

Ending: TypeAlias = dict[str, Any]
"""What a run returns; `outcome` says in one word how it ended."""

TicketPipeline: TypeAlias = Callable[[Steps, Json], Awaitable[Ending]]
"""The work on one ticket, from the ticket's text to its ending."""


class TicketSettings(Struct, frozen=True, kw_only=True):
    """What the environment says about the work on tickets."""

    state_initial: str
    state_success: str
    architecture_page_id: str
    rollback_on_failure: bool = True
    max_diff_chars: int = 60_000
    unsupported_vcs: str = ""
    """A version control system that was asked for and cannot be spoken to: the ticket is to say so."""
    recovery_enabled: bool = False
    may_approve: bool = False
    """Whether a review may approve what it has nothing against."""
    limits: LoopLimits = LoopLimits(max_cost_usd=1.0)
    """What a model in a loop may use."""


class Ledger(Protocol):
    """Where people look up what became of a run; to tell it the same twice changes nothing."""

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        """Keep what a step returned or was refused, without secrets."""

    def record_end(self, run_id: RunId, at: str, state: str) -> None:
        """Keep how a run ended."""


class Desk(Struct, frozen=True, kw_only=True):
    """What an agent works with."""

    tracker: TrackerPort
    vcs: VcsPort
    docs: DocsPort
    brain: Brain
    ledger: Ledger
    clock: Clock
    redact: Redactor
    new_fence: Callable[[], str]
    settings: TicketSettings


class StepFailed(Exception):
    """A step was refused, or broke; the error is a refusal's."""

    def __init__(self, step: str, error: Mapping[str, Json]) -> None:
        super().__init__(f"{step}: {error['message']}")
        self.step = step
        self.error = error


class TicketSteps:
    """The steps of one run, in the order in which they are asked for."""

    def __init__(self, run: Steps, desk: Desk, prefix: str = "") -> None:
        self._run = run
        self._desk = desk
        self._prefix = prefix
        self.reached: list[str] = []

    def within(self, part: str) -> TicketSteps:
        """Return further steps of the same run, whose names say which part of it they belong to."""
        steps = TicketSteps(self._run, self._desk, f"{self._prefix}{part}.")
        steps.reached = self.reached
        return steps

    @property
    def run_id(self) -> RunId:
        """Return the run that they are steps of."""
        return self._run.run_id

    def has_done(self, name: str) -> bool:
        """Tell whether a step was done, in whichever part of the run."""
        return any(step.rpartition(".")[2] == name for step in self.reached)

    def marker(self, step: str) -> str:
        """Return the mark of what a step writes: the same in each part of a run, so that none writes it again."""
        return f"{self._run.run_id}/{step}"

    async def do(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do a step, unless it was done, and return what it returned then.

        Raises: StepFailed.
        """
        value = await self.do_within(name, act)
        self.reached.append(f"{self._prefix}{name}")
        return value

    async def do_within(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do a part of a larger step in the same way.

        Raises: StepFailed.
        """
        full = f"{self._prefix}{name}"

        async def outcome() -> Json:
            return await self._outcome(full, act)

        recorded: Any = await self._run.step(full, outcome)
        if "error" in recorded:
            raise StepFailed(full, recorded["error"])
        return recorded["value"]

    async def comment(self, step: str, key: str, text: str) -> None:
        """Tell a ticket something, without secrets.

        Raises: StepFailed.
        """
        tracker, shown = self._desk.tracker, self._desk.redact(text)
        cut = len(shown) - COMMENT_CHARS
        shown = f"{shown[:COMMENT_CHARS]}\n({cut} characters were cut off)" if cut > 0 else shown
        await self.do(step, lambda: tracker.add_comment(key, shown, marker=self.marker(step)))

    async def tried(self, doing: Awaitable[None]) -> bool:
        """Tell whether something could be done; the ledger has why not."""
        try:
            await doing
        except StepFailed:
            return False
        return True

    async def to_the_end(
        self, path: Callable[[], Awaitable[Ending]], failed: Callable[[StepFailed], Awaitable[Ending]]
    ) -> Ending:
        """Take a path, or what is to be done when a step of it fails; and say how the run ended."""
        try:
            ending = await path()
        except StepFailed as failure:
            ending = await failed(failure)
        self._desk.ledger.record_end(self._run.run_id, timestamp(self._desk.clock.now()), ending["outcome"])
        return ending

    async def _outcome(self, name: str, act: Callable[[], Awaitable[Any]]) -> Json:
        outcome: dict[str, Any]
        try:
            outcome = {"value": msgspec.to_builtins(await act())}
        except Refusal as refusal:
            outcome = {"error": msgspec.to_builtins(refusal.as_error())}
        except Fault:
            broken = InternalError("A part of AOP broke; what it knows of it is in its own log.")
            outcome = {"error": broken.as_error()}
        shown = mask_json(outcome, self._desk.redact)
        self._desk.ledger.record_step(self._run.run_id, name, timestamp(self._desk.clock.now()), shown)
        return outcome
