"""Steps of a ticket run: each is done once and recorded, also when it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits
from aop.brains.ports import Brain
from aop.core.clock import Clock, timestamp
from aop.core.errors import Fault, InternalError, Json, Refusal, TicketProviderUnsupported
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor, mask_json
from aop.core.run import Steps
from aop.tickets.ports import DocsPort, TrackerPort, VcsPort

COMMENT_CHARS = 30_000
"""The longest comment; Jira's limit is 32,767."""

Ending: TypeAlias = dict[str, Any]
"""The result of a run; `outcome` is its final state."""

TicketPipeline: TypeAlias = Callable[[Steps, Json], Awaitable[Ending]]
"""The work on one ticket, from the ticket's text to its ending."""


class TicketSettings(Struct, frozen=True, kw_only=True):
    """Settings of the work on tickets, from the environment."""

    state_initial: str
    state_success: str
    architecture_page_id: str
    rollback_on_failure: bool = True
    max_diff_chars: int = 60_000
    unsupported_vcs: str = ""
    """A chosen version control system that AOP does not support; the ticket gets a comment about it."""
    recovery_enabled: bool = False
    may_approve: bool = False
    """Whether a review without objection approves the merge request."""
    limits: LoopLimits = LoopLimits(max_cost_usd=1.0)
    """The limits of a model that works with tools."""


class Ledger(Protocol):
    """The record of runs that people read; a repeated call changes nothing."""

    def record_step(self, run_id: RunId, name: str, at: str, outcome: Json) -> None:
        """Store the result or the refusal of a step, without secrets."""

    def record_end(self, run_id: RunId, at: str, state: str) -> None:
        """Store the final state of a run."""

    def has_left(self, kind: str, ticket: str, step: str) -> bool:
        """Tell whether a run of a ticket did a step before it failed."""


class Desk(Struct, frozen=True, kw_only=True):
    """All that a pipeline works with."""

    tracker: TrackerPort
    vcs: VcsPort
    docs: DocsPort
    brain: Brain
    ledger: Ledger
    clock: Clock
    redact: Redactor
    new_fence: Callable[[], str]
    settings: TicketSettings


def refuse_unsupported(settings: TicketSettings) -> None:
    """Refuse work on a code hosting that AOP does not know; the comment on the failure says so in the ticket."""
    if settings.unsupported_vcs:
        raise TicketProviderUnsupported(
            f"`VCS_PROVIDER` is `{settings.unsupported_vcs}`, which AOP does not support.", variable="VCS_PROVIDER"
        )


class StepFailed(Exception):
    """A step was refused or broke; `error` has the form of a refusal."""

    def __init__(self, step: str, error: Mapping[str, Json]) -> None:
        super().__init__(f"{step}: {error['message']}")
        self.step = step
        self.error = error


class TicketSteps:
    """The steps of one run, in order."""

    def __init__(self, run: Steps, desk: Desk, prefix: str = "") -> None:
        self._run = run
        self._desk = desk
        self._prefix = prefix
        self.reached: list[str] = []

    def within(self, part: str) -> TicketSteps:
        """Return steps of the same run whose names begin with a part of it."""
        steps = TicketSteps(self._run, self._desk, f"{self._prefix}{part}.")
        steps.reached = self.reached
        return steps

    @property
    def run_id(self) -> RunId:
        """Return the id of the run."""
        return self._run.run_id

    def has_done(self, name: str) -> bool:
        """Tell whether a step was done, in any part of the run."""
        return any(step.rpartition(".")[2] == name for step in self.reached)

    def marker(self, step: str) -> str:
        """Return the marker of what a step writes, the same in each part of a run."""
        return f"{self._run.run_id}/{step}"

    async def do(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do a step unless it is recorded, and return its result. Raises: StepFailed."""
        value = await self.do_within(name, act)
        self.reached.append(f"{self._prefix}{name}")
        return value

    async def do_within(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do a part of a larger step, which does not count as reached. Raises: StepFailed."""
        full = f"{self._prefix}{name}"
        recorded: Any = await self._run.step(full, lambda: self._outcome(full, act))
        if "error" in recorded:
            raise StepFailed(full, recorded["error"])
        return recorded["value"]

    async def compute(self, name: str, make: Callable[[], Any]) -> Any:
        """Do a step that calls no system. Raises: StepFailed."""

        async def act() -> Any:
            return make()

        return await self.do(name, act)

    async def read_docs(self, service: str) -> tuple[str, str]:
        """Return the documentation of a service, and the standards. Raises: StepFailed."""
        docs, page = self._desk.docs, self._desk.settings.architecture_page_id
        project = await self.do("read_project_docs", lambda: docs.get_project_context(service))
        return project, await self.do("read_architecture_docs", lambda: docs.get_architecture_context(page))

    async def comment(self, step: str, key: str, text: str) -> None:
        """Comment on a ticket, without secrets. Raises: StepFailed."""
        tracker, shown = self._desk.tracker, self._desk.redact(text)
        cut = len(shown) - COMMENT_CHARS
        shown = f"{shown[:COMMENT_CHARS]}\n({cut} characters omitted)" if cut > 0 else shown
        await self.do(step, lambda: tracker.add_comment(key, shown, marker=self.marker(step)))

    async def succeeds(self, doing: Awaitable[None]) -> bool:
        """Tell whether an action succeeds; the ledger has the reason if not."""
        try:
            await doing
        except StepFailed:
            return False
        return True

    async def run_to_end(
        self, path: Callable[[], Awaitable[Ending]], failed: Callable[[StepFailed], Awaitable[Ending]]
    ) -> Ending:
        """Run the pipeline, or its failure path when a step fails, and record the ending."""
        try:
            ending = await path()
        except StepFailed as failure:
            ending = await failed(failure)
        self._desk.ledger.record_end(self._run.run_id, timestamp(self._desk.clock.now()), ending["outcome"])
        return ending

    async def _outcome(self, name: str, act: Callable[[], Awaitable[Any]]) -> Json:
        try:
            outcome: dict[str, Any] = {"value": msgspec.to_builtins(await act())}
        except Refusal as refusal:
            outcome = {"error": msgspec.to_builtins(refusal.as_error())}
        except Fault:
            outcome = {"error": InternalError("A part of AOP broke; its log has the details.").as_error()}
        shown = mask_json(outcome, self._desk.redact)
        self._desk.ledger.record_step(self._run.run_id, name, timestamp(self._desk.clock.now()), shown)
        return outcome
