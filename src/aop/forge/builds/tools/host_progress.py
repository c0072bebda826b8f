"""Host progress: `forge_report_progress`, for a coder that is another program."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidArguments
from aop.core.roles import Role
from aop.forge.broker.fetches import fetches_of_build
from aop.forge.builds.context.messages import must_read_text
from aop.forge.builds.documents import BuildCycle, SignedOff
from aop.forge.builds.machine import marker_answers
from aop.forge.builds.machine.crew_step import claimed, role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import Planned, Stopped, TaskDone
from aop.forge.builds.tools.cycles import BuildArguments
from aop.forge.builds.tools.progress import BuildNews, BuildProgress, heard, take_news, without_secrets
from aop.forge.builds.workspace.build_workspace import build_of, open_build_of, refuse_other_turn
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.port import Snapshot, Transaction

WAIT_SECONDS = 20.0
"""Hosts give up a call after a minute, or sooner."""
POLL_SECONDS = 0.25
LONGEST_EVENT = 64 * 1024
JUDGED = "Your sign-off is being judged. Call `forge_report_progress` without an event to learn how it ends."
NOT_YOURS = "The {role} is at work. Call `forge_report_progress` without an event to wait for your turn."
COMPLETE = "Every phase is signed off. Your work is done."


class ReportProgress(Arguments, frozen=True, kw_only=True):
    event: Planned | TaskDone | SignedOff | Stopped | None = None
    """Your plan, a finished task, the sign-off of the phase, or a stop; without one, wait for what comes next."""


class HostProgress(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    phase: int
    """The number of the phase that is being built."""
    phase_name: str
    """Its name."""
    at_work: str
    """The role whose turn it is: `scout`, `coder`, `auditor` or `fixer`; empty when the build is complete."""
    complete: bool
    """Whether every phase is signed off."""
    text: str
    """The answer to the event, or what comes next."""
    missing: str
    """The reasons why your last sign-off did not count; empty if there are none."""
    scout_report: str
    """The report of the scout on this phase."""
    messages: tuple[str, ...]
    """The words of people since, each text once."""


def report(call: Call, arguments: ReportProgress) -> Outcome:
    """Take in what a host's coder did, or wait a while for its turn."""
    event = arguments.event
    if event is None:
        _wait(call)
        return call.commit(lambda tx: _state(tx, call))
    if len(msgspec.json.encode(event)) > LONGEST_EVENT:
        raise InvalidArguments(f"The event has more than {LONGEST_EVENT:,} bytes.", hint="Say it in fewer words.")
    with call.kernel.record.read() as view:
        cycle = _own_turn(view, call)
    if isinstance(event, SignedOff):
        said = without_secrets(call, event)
        return call.commit(lambda tx: _claim(tx, call, said))
    return heard(
        call,
        cycle.build_id,
        event,
        answer=lambda tx, progress: _answer(tx, call, progress),
        admit=lambda view: _own_turn(view, call),
    )


def _own_turn(view: Snapshot, call: Call) -> BuildCycle:
    """Return the build of the caller, whose turn it is. Raises: OtherRolesTurn, and as `_team_build`."""
    cycle = _team_build(view, call)
    refuse_other_turn(cycle, call.principal.role)
    return cycle


def _team_build(view: Snapshot, call: Call) -> BuildCycle:
    """Return the build of the caller, on which a team works. Raises: InvalidArguments, BuildEnded, BuildOnHold."""
    cycle = open_build_of(view, call.principal).cycle
    if cycle.crew != "team":
        raise InvalidArguments(
            f"The build `{cycle.build_id}` has one builder and no coder.",
            hint="Begin the next build with `aop forge build PROJECT --crew team --coder host`.",
            build_id=cycle.build_id,
        )
    return cycle


def _claim(tx: Transaction, call: Call, said: SignedOff) -> HostProgress:
    cycle = _own_turn(tx, call)
    after = claimed(cycle, said, call.kernel.now())
    tx.put(after, after.build_id)
    return _shown(after, JUDGED)


def _answer(tx: Transaction, call: Call, progress: BuildProgress) -> HostProgress:
    cycle = build_of(tx, call.principal).cycle
    return _shown(cycle, f"{progress.answer or cycle.hold_reason}{_reminder(tx, cycle)}")


def _reminder(view: Snapshot, cycle: BuildCycle) -> str:
    """Return what a coder is reminded of who has fetched no contract (FORGE-113)."""
    fetched = (entry.event.payload for entry in fetches_of_build(view, cycle.build_id))
    if any(payload["role"] == Role.CODER for payload in fetched):
        return ""
    return f"\n{must_read_text(cycle.current.number, Role.CODER)}"


def _state(tx: Transaction, call: Call) -> Outcome:
    """Return what comes next, and what people said to the coder. Raises: BuildEnded, BuildOnHold."""
    cycle = build_of(tx, call.principal).cycle
    if is_complete(cycle):
        return _shown(cycle, COMPLETE)
    if role_at_work(cycle) is not Role.CODER:
        # What people say now is for the role at work.
        return _shown(_team_build(tx, call), NOT_YOURS.format(role=role_at_work(cycle)))
    news = take_news(call, BuildArguments(build_id=cycle.build_id), tx)
    if not isinstance(news, BuildNews):
        return news
    after = build_of(tx, call.principal).cycle
    text = JUDGED if after.current.crew.claimed else marker_answers.what_is_next(after.current)
    return _shown(after, text, news.messages)


def _wait(call: Call) -> None:
    """Return when the coder has something to do, or after a while."""
    clock = call.kernel.clock
    until = clock.boot_seconds() + WAIT_SECONDS
    while clock.boot_seconds() < until:
        with call.kernel.record.read() as view:
            cycle = build_of(view, call.principal).cycle
        is_own = role_at_work(cycle) is Role.CODER and cycle.current.crew.claimed is None
        if is_own or is_complete(cycle) or cycle.hold or cycle.crew != "team":
            return
        clock.pause(POLL_SECONDS)


def _shown(cycle: BuildCycle, text: str, messages: tuple[str, ...] = ()) -> HostProgress:
    complete, current = is_complete(cycle), cycle.current
    return HostProgress(
        build_id=cycle.build_id,
        phase=current.number,
        phase_name=cycle.phases[current.number] if current.number < len(cycle.phases) else "",
        at_work="" if complete else role_at_work(cycle).value,
        complete=complete,
        text=text,
        missing=current.crew.told if current.crew.stage == "code" else "",
        scout_report=current.crew.scout_report,
        messages=messages,
    )


TOOLS = (
    Tool(
        name="forge_report_progress",
        summary=(
            "Report your plan, a finished task, the sign-off of the phase or a stop of your build; without an event,"
            " wait for your turn and learn what is missing."
        ),
        arguments=ReportProgress,
        output=HostProgress,
        roles=frozenset({Role.CODER}),
        run=report,
        mutates=True,
        lean=True,
        resolve=undo_move,
    ),
)
