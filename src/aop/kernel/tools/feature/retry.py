"""Tools `feature.retry` and `feature.stop`: a feature starts again, or stops."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import change_status, require_status, with_status
from aop.kernel.features.work_requests import request_work
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.plans.acceptance import assess_plan
from aop.kernel.plans.collisions import collision_refusal
from aop.kernel.plans.waiting_queue import release_for_status
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Transaction
from aop.kernel.record.status_history import STOPPED

REASON = "A person asked to retry it."


class RetryResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    """The status in which it starts again."""
    was: Status


@committed
def retry(call: Call, arguments: ChangeArguments, tx: Transaction) -> Outcome:
    """Start a failed or blocked feature again where it stopped; its work stays."""
    state = the_feature(tx, arguments)
    require_status(state, Status.FAILED, Status.BLOCKED, to="begin again")
    after = _restarted_state(tx, call, state)
    stored = change_status(tx, call, state, after, reason=REASON)
    release_for_status(tx, call, stored)
    request_work(tx, call, stored.feature_id, again=True)
    tx.append(call.event("feature_retried", stored.feature_id, was=state.status, now=stored.status))
    return copy_fields(RetryResult, feature_named(tx, stored.feature_id), was=state.status)


class StopResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    was: Status


@committed
def stop(call: Call, arguments: ChangeArguments, tx: Transaction) -> Outcome:
    """Stop a feature: its locks and claims are released, its work stays, and `feature.retry` starts it again."""
    state = the_feature(tx, arguments)
    stored = change_status(tx, call, state, with_status(state, Status.FAILED, reason=STOPPED))
    release_for_status(tx, call, stored)
    return copy_fields(StopResult, feature_named(tx, stored.feature_id), was=state.status)


def _restarted_state(tx: Transaction, call: Call, state: FeatureState) -> FeatureState:
    if state.waits_for:
        # It restarts when they are merged, and its old plan no longer holds claims.
        return msgspec.structs.replace(state, status=Status.BLOCKED, blocked_from=Status.PLANNING)
    return _revive(tx, call, state) if state.status is Status.FAILED else _unblock(state)


def _unblock(state: FeatureState) -> FeatureState:
    before = state.blocked_from or Status.PLANNING
    # A feature that was ready is proven again: `ready_to_merge` is never set by hand.
    return with_status(state, Status.QA if before is Status.READY_TO_MERGE else before, reason=REASON)


def _revive(tx: Transaction, call: Call, state: FeatureState) -> FeatureState:
    """Return a failed feature as an active one, with its plan in force again (C-23). Raises: CollisionDetected."""
    accepted = tx.get(AcceptedPlan, state.feature_id)
    if accepted is None:
        return msgspec.structs.replace(state, status=Status.PLANNING, status_reason=REASON)
    assessment = assess_plan(tx, state, accepted.plan, call.kernel.config())
    if assessment.collisions:
        raise collision_refusal(state.feature_id, assessment.collisions)
    tx.set_claims(state.feature_id, assessment.claims)
    return msgspec.structs.replace(state, status=Status.BUILDING, status_reason=REASON)


TOOLS = (
    Tool(
        name="feature.retry",
        summary="Start a failed or blocked feature again where it stopped, with fresh turns.",
        arguments=ChangeArguments,
        output=RetryResult,
        roles=COORDINATORS,
        run=retry,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="feature.stop",
        summary="Stop a feature: no agent works on it until a person retries it.",
        arguments=ChangeArguments,
        output=StopResult,
        roles=COORDINATORS,
        run=stop,
        mutates=True,
        person_only=True,
    ),
)
