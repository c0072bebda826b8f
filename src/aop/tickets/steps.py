"""The steps of a ticket's run: each is done once and recorded, and what one refuses is data until all is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aop.brains.ports import Brain
from aop.brains.recordings import masked
from aop.core.clock import Clock, timestamp
from aop.core.errors import Fault, InternalError, Json, Refusal
from aop.core.redaction import Redactor
from aop.core.run import Run, RunId
from aop.tickets.ports import DocsPort, TrackerPort, VcsPort


class TicketSettings(Struct, frozen=True, kw_only=True):
    """What the environment says about the work on tickets."""

    state_initial: str
    state_success: str
    architecture_page_id: str
    rollback_on_failure: bool = True
    recovery_enabled: bool = False


class Ledger(Protocol):
    """Where people look up what became of a run; to tell it the same twice changes nothing."""

    def step_done(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        """Keep what a step returned or was refused, without secrets."""

    def ended(self, run_id: RunId, at: str, state: str) -> None:
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


class Steps:
    """The steps of one run, in the order in which they are asked for."""

    def __init__(self, run: Run, desk: Desk) -> None:
        self._run = run
        self._desk = desk
        self.reached: list[str] = []

    def marker(self, step: str) -> str:
        """Return the mark of what a step writes."""
        return f"{self._run.run_id}/{step}"

    async def do(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do a step, unless it was done, and return what it returned then.

        Raises: StepFailed.
        """

        async def outcome() -> Json:
            return await self._outcome(name, act)

        recorded: Any = await self._run.step(name, outcome)
        if "error" in recorded:
            raise StepFailed(name, recorded["error"])
        self.reached.append(name)
        return recorded["value"]

    def end(self, state: str) -> None:
        """Say how the run ended."""
        self._desk.ledger.ended(self._run.run_id, timestamp(self._desk.clock.now()), state)

    async def _outcome(self, name: str, act: Callable[[], Awaitable[Any]]) -> Json:
        outcome: dict[str, Any]
        try:
            outcome = {"value": msgspec.to_builtins(await act())}
        except Refusal as refusal:
            outcome = {"error": msgspec.to_builtins(refusal.as_error())}
        except Fault:
            broken = InternalError("A part of AOP broke; what it knows of it is in its own log.")
            outcome = {"error": broken.as_error()}
        shown = masked(outcome, self._desk.redact)
        self._desk.ledger.step_done(self._run.run_id, name, timestamp(self._desk.clock.now()), shown)
        return outcome
