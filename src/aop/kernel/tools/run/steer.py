"""Tools by which people steer a run: a feature more, a feature again, and what should rest."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import FEATURE_ID_PATTERN, FeatureId, feature_id
from aop.kernel.features.lifecycle import change_status, moved, must_be
from aop.kernel.gateway.calls import Arguments, Call, ChangeArguments, Outcome, Tool, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.plans.acceptance import weigh
from aop.kernel.plans.collisions import collision_refusal
from aop.kernel.plans.waiting_queue import follow_status
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.runs import Pause, WorkRequest
from aop.kernel.record.port import Transaction

REASON = "A person asked for it to begin again."

# --- run.add, run.took ---------------------------------------------------------------------------


class Add(ChangeArguments, frozen=True, kw_only=True):
    depends_on: tuple[Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)], ...] = ()
    """The features that must be merged before this one begins."""


class Wished(Struct, frozen=True, kw_only=True):
    feature_id: str
    depends_on: tuple[str, ...]
    """The features that must be merged before this one begins."""


def add(call: Call, arguments: Add) -> Outcome:
    """Note that a person wants a feature worked on; the supervisor takes it from there."""

    def decide(tx: Transaction) -> Outcome:
        name = FeatureId(arguments.feature_id)
        if arguments.expected_version is not None:
            the_feature(tx, arguments)
        depends_on = tuple(feature_id(other) for other in arguments.depends_on)
        _wish(tx, call, name, depends_on=depends_on)
        tx.append(call.event("feature_wanted", name, depends_on=list(depends_on)))
        return Wished(feature_id=name, depends_on=depends_on)

    return call.commit(decide)


class Took(Struct, frozen=True, kw_only=True):
    feature_id: str
    taken: bool
    """False when there was nothing to take."""


def took(call: Call, arguments: ChangeArguments) -> Outcome:
    """Note that the supervisor works on what a person wanted."""

    def decide(tx: Transaction) -> Outcome:
        if arguments.expected_version is not None:
            the_feature(tx, arguments)
        name = FeatureId(arguments.feature_id)
        known = tx.get(WorkRequest, name)
        tx.remove(WorkRequest, name)
        return Took(feature_id=name, taken=known is not None)

    return call.commit(decide)


def _wish(
    tx: Transaction, call: Call, name: FeatureId, *, depends_on: tuple[FeatureId, ...] = (), again: bool = False
) -> None:
    """Keep a wish; one that nobody has taken yet is replaced, and stays one to begin again."""
    before = tx.get(WorkRequest, name)
    wish = WorkRequest(
        version=1 if before is None else before.version + 1,
        feature_id=name,
        again=again or (before is not None and before.again),
        depends_on=depends_on,
        wished_by=call.principal.actor,
        wished_at=call.kernel.now(),
    )
    tx.put(wish, name)


# --- feature.retry -------------------------------------------------------------------------------


class Retried(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    """Where it begins again."""
    was: Status


def retry(call: Call, arguments: ChangeArguments) -> Outcome:
    """Let a failed or blocked feature begin again where it was; what was done for it stays."""

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        must_be(state, Status.FAILED, Status.BLOCKED, to="begin again")
        after = _begun_again(tx, call, state)
        stored = change_status(tx, call, state, after, reason=REASON)
        follow_status(tx, call, stored)
        _wish(tx, call, stored.feature_id, again=True)
        tx.append(call.event("feature_retried", stored.feature_id, was=state.status, now=stored.status))
        now = feature_named(tx, stored.feature_id)
        return Retried(feature_id=now.feature_id, version=now.version, status=now.status, was=state.status)

    return call.commit(decide)


def _begun_again(tx: Transaction, call: Call, state: FeatureState) -> FeatureState:
    if state.waits_for:
        # It begins anew when they are merged, and its old plan holds nothing any more.
        return msgspec.structs.replace(state, status=Status.BLOCKED, blocked_from=Status.PLANNING)
    return _revived(tx, call, state) if state.status is Status.FAILED else _unblocked(state)


def _unblocked(state: FeatureState) -> FeatureState:
    before = state.blocked_from or Status.PLANNING
    # What was ready is proven again: nobody becomes ready by hand.
    return moved(state, Status.QA if before is Status.READY_TO_MERGE else before, reason=REASON)


def _revived(tx: Transaction, call: Call, state: FeatureState) -> FeatureState:
    """Return a failed feature as one that is on its way, with its plan in force again; only a person does that (C-23).

    Raises: CollisionDetected if another feature holds by now what the plan held.
    """
    accepted = tx.get(AcceptedPlan, state.feature_id)
    if accepted is None:
        return msgspec.structs.replace(state, status=Status.PLANNING, status_reason=REASON)
    weighed = weigh(tx, state, accepted.plan, call.kernel.config())
    if weighed.collisions:
        raise collision_refusal(state.feature_id, weighed.collisions)
    tx.set_claims(state.feature_id, weighed.claims)
    return msgspec.structs.replace(state, status=Status.BUILDING, status_reason=REASON)


# --- run.pause, run.resume -----------------------------------------------------------------------


class Rest(Arguments, frozen=True, kw_only=True):
    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)] | None = None
    """Which feature; all of them, and those to come, when it is null."""
    expected_version: Annotated[int, Meta(ge=1)] | None = None


class Paused(Struct, frozen=True, kw_only=True):
    feature_id: str | None
    paused_by: str
    """Who paused it."""
    paused_at: str
    """Since when it rests, in UTC."""
    changed: bool
    """False when it rested already."""


def pause(call: Call, arguments: Rest) -> Outcome:
    """Let no new turn and no new gate begin; what runs comes to its end."""

    def decide(tx: Transaction) -> Outcome:
        _check(tx, arguments)
        key = arguments.feature_id or Pause.all
        known = tx.get(Pause, key)
        name = None if arguments.feature_id is None else FeatureId(arguments.feature_id)
        rest = known or Pause(version=1, feature_id=name, paused_by=call.principal.actor, paused_at=call.kernel.now())
        if known is None:
            tx.put(rest, key)
            tx.append(call.event("run_paused", name))
        return Paused(
            feature_id=rest.feature_id, paused_by=rest.paused_by, paused_at=rest.paused_at, changed=known is None
        )

    return call.commit(decide)


class ResumedFeatures(Struct, frozen=True, kw_only=True):
    resumed: tuple[str, ...]
    """What was taken back: features, or `*` for everything; empty when nothing rested."""
    still_paused: tuple[str, ...]
    """What rests as before: features, or `*` for everything."""


def resume(call: Call, arguments: Rest) -> Outcome:
    """Take a pause back: that of one feature, or every one."""

    def decide(tx: Transaction) -> Outcome:
        _check(tx, arguments)
        keys = [rest.feature_id or Pause.all for rest in tx.all(Pause)]
        ended = [key for key in keys if arguments.feature_id in (None, key)]
        for key in ended:
            tx.remove(Pause, key)
            tx.append(call.event("run_resumed", None if key == Pause.all else FeatureId(key)))
        return ResumedFeatures(resumed=tuple(ended), still_paused=tuple(key for key in keys if key not in ended))

    return call.commit(decide)


def _check(tx: Transaction, arguments: Rest) -> None:
    """Refuse a feature that is not there, or not at the version that the caller saw.

    Raises: UnknownFeature, VersionConflict.
    """
    if arguments.feature_id is not None:
        seen = {"feature_id": arguments.feature_id, "expected_version": arguments.expected_version}
        the_feature(tx, msgspec.convert(seen, ChangeArguments))


TOOLS = (
    Tool(
        name="feature.retry",
        summary="Let a failed or blocked feature begin again where it was, with fresh turns.",
        arguments=ChangeArguments,
        output=Retried,
        roles=COORDINATORS,
        run=retry,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.add",
        summary="Have one feature more worked on by the supervisor that is running, or by the next one.",
        arguments=Add,
        output=Wished,
        roles=COORDINATORS,
        run=add,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.took",
        summary="Say that the supervisor works on what was added or is to begin again.",
        arguments=ChangeArguments,
        output=Took,
        roles=frozenset(),
        run=took,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.pause",
        summary="Let no new turn and no new gate begin, of one feature or of all; what runs comes to its end.",
        arguments=Rest,
        output=Paused,
        roles=COORDINATORS,
        run=pause,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="run.resume",
        summary="Take a pause back: that of one feature, or every one.",
        arguments=Rest,
        output=ResumedFeatures,
        roles=COORDINATORS,
        run=resume,
        mutates=True,
        person_only=True,
    ),
)
