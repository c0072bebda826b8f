"""Controls of a build: `forge.build_pause`, `_resume`, `_interject`, `_cost`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.core.ids import FeatureId
from aop.forge.builds.cycle.abandonment import given_up
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.step import resumed_after_stop
from aop.forge.builds.people.clarifications import close_questions
from aop.forge.builds.people.costs import cap_of, counted_cost
from aop.forge.builds.people.errors import SeenError
from aop.forge.builds.people.holds import LONGEST_INTERJECTION, paused_cycle, resumed_cycle, with_interjection
from aop.forge.builds.people.watchdog import Sign, silence_text
from aop.forge.builds.tools.build_errors import count_error
from aop.forge.builds.tools.cycles import BuildArguments
from aop.forge.projects.keys import WRITE_SCOPE
from aop.kernel.gateway.calls import Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.usage import FeatureUsage
from aop.kernel.record.port import Transaction
from aop.kernel.record.spending import spent_on

GO_ON = "Decide by the contracts."
"""The answer to a STOP of a person who only resumes the build."""


class PauseBuild(BuildArguments, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(max_length=1000)] = ""
    """Why, for people who look at the build."""


class Interject(BuildArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_INTERJECTION)]
    """The message for the model, before its next reply."""


class BuildSilence(BuildArguments, frozen=True, kw_only=True):
    sign: Sign
    """`beat` while it works, `warn` and `fail` after a silence."""
    silent_seconds: Annotated[int, Meta(ge=0, le=10**9)] = 0
    """The seconds without a sign of life."""


class BuildHold(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    project_id: str
    """Its project."""
    status: str
    """`active`, or how it ended."""
    hold: str
    """Why it does not go on: `paused`, `stopped`, `cost_cap`, `silent`; empty if nothing holds it."""
    hold_reason: str
    """The same in words."""
    changed: bool
    """False if it was so already."""


class BuildCost(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    cost_usd: float
    """The cost of its turns, as far as it is known."""
    cap_usd: float
    """The cap of its cost; 0: no cap."""
    unknown_turns: int
    """The turns whose cost nobody reported."""
    exceeded: bool
    """Whether the cap holds the build now."""


def pause(call: Call, arguments: PauseBuild, tx: Transaction) -> Outcome:
    """Pause a build: its current call is finished, and no other begins."""
    before = the_living_cycle(tx, arguments.build_id, call.principal)
    reason = call.kernel.redact(arguments.reason) or f"Paused by {call.principal.actor}."
    after = paused_cycle(before, reason, call.kernel.now())
    return _stored(tx, call, before, after, "build_paused")


def resume(call: Call, arguments: BuildArguments, tx: Transaction) -> Outcome:
    """Let a build go on that is paused, stopped, silent or at its cap; a question of a STOP is closed."""
    before = the_living_cycle(tx, arguments.build_id, call.principal)
    now, ended = call.kernel.now(), given_up(call, tx, before)
    if ended is not None:
        return ended
    if before.stop is None:
        return _stored(tx, call, before, resumed_cycle(before, now), "build_resumed")
    close_questions(tx, call, before, "The build was resumed.", only=before.stop.question_id)
    return _stored(tx, call, before, resumed_after_stop(before, GO_ON, now), "build_resumed")


def _stored(tx: Transaction, call: Call, before: BuildCycle, after: BuildCycle, kind: str) -> BuildHold:
    if after is not before:
        tx.put(after, after.build_id)
        reason = after.hold_reason or before.hold_reason
        tx.append(call.event(kind, FeatureId(after.build_id), build_id=after.build_id, reason=reason))
    return _hold(after, changed=after is not before)


def _hold(cycle: BuildCycle, *, changed: bool) -> BuildHold:
    return BuildHold(
        build_id=cycle.build_id,
        project_id=cycle.project_id,
        status=cycle.status,
        hold=cycle.hold,
        hold_reason=cycle.hold_reason,
        changed=changed,
    )


def interject(call: Call, arguments: Interject, tx: Transaction) -> Outcome:
    """Keep a text for the model of a build, which gets it before its next reply."""
    before = the_living_cycle(tx, arguments.build_id, call.principal)
    text = call.kernel.redact(arguments.text).strip()
    if not text:
        raise InvalidArguments("The text is empty.")
    after = with_interjection(before, text, call.kernel.now())
    tx.put(after, after.build_id)
    facts = {"build_id": after.build_id, "level": "info", "source": "user", "message": text}
    tx.append(call.event("build_log", FeatureId(after.build_id), **facts))
    return _hold(after, changed=True)


def note_silence(call: Call, arguments: BuildSilence, tx: Transaction) -> Outcome:
    """Tell those who follow a build that it is alive, or silent; one that is silent for too long is held."""
    before, now = the_living_cycle(tx, arguments.build_id, call.principal), call.kernel.now()
    build, text = FeatureId(before.build_id), silence_text(arguments.sign, arguments.silent_seconds)
    if arguments.sign != "fail" or before.hold:
        level = "info" if arguments.sign == "beat" else "warning"
        facts = {"build_id": before.build_id, "level": level, "source": "watchdog", "message": text}
        tx.append(call.event("build_log", build, **facts))
        return _hold(before, changed=False)
    held = revise(before, hold="silent", hold_reason=text, updated_at=now)
    tx.put(held, held.build_id)
    tx.append(call.event("build_failed", build, build_id=held.build_id, reason=text))
    seen = SeenError(message=text, source="watchdog", severity="fatal", phase=held.current.number)
    count_error(tx, call, held.build_id, seen)
    return _hold(held, changed=True)


def cost(call: Call, arguments: BuildArguments, tx: Transaction) -> Outcome:
    """Compare what the recorded turns of a build have cost with its cap; at the cap the build is held."""
    before = the_living_cycle(tx, arguments.build_id, call.principal)
    spent = spent_on(tx.get(FeatureUsage, before.build_id)).cost_usd
    rules = call.kernel.config().policy.forge.build
    after, told = counted_cost(before, rules, spent, call.kernel.now())
    tx.put(after, after.build_id)
    for each in told:
        tx.append(call.event(each.kind, FeatureId(after.build_id), **each.payload))
    return BuildCost(
        build_id=after.build_id,
        cost_usd=after.cost_usd,
        cap_usd=cap_of(after, rules),
        unknown_turns=spent.unknown_turns,
        exceeded=after.hold == "cost_cap",
    )


TOOLS = (
    Tool(
        name="forge.build_pause",
        summary="Pause a build: its current call is finished, and no other begins.",
        arguments=PauseBuild,
        output=BuildHold,
        roles=COORDINATORS,
        run=committed(pause),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
    ),
    Tool(
        name="forge.build_resume",
        summary="Let a build go on that is paused, stopped, silent or at its cap.",
        arguments=BuildArguments,
        output=BuildHold,
        roles=COORDINATORS,
        run=committed(resume),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
    ),
    Tool(
        name="forge.build_interject",
        summary="Tell the model of a build something before its next reply.",
        arguments=Interject,
        output=BuildHold,
        roles=COORDINATORS,
        run=committed(interject),
        mutates=True,
        brief=True,
        person_only=True,
        key_scope=WRITE_SCOPE,
    ),
    Tool(
        name="forge.build_silence",
        summary="Note that a running build is alive, or silent; one that is silent for too long is held.",
        arguments=BuildSilence,
        output=BuildHold,
        roles=COORDINATORS,
        run=committed(note_silence),
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="forge.build_cost",
        summary="Compare the cost of a build's turns with its cap; at the cap the build is held.",
        arguments=BuildArguments,
        output=BuildCost,
        roles=COORDINATORS,
        run=committed(cost),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
