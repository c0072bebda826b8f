"""Tools on plans: the first one, a revision, and reading the accepted one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import FileNotFound, PlanRequired
from aop.core.redaction.redactor import masked
from aop.kernel.features.lifecycle import must_be
from aop.kernel.features.specs import spec_text
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import PLANNERS, READERS
from aop.kernel.locks.leases import now_by
from aop.kernel.plans.acceptance import accept, accepted_event, weigh
from aop.kernel.plans.checks import check_first, check_revision
from aop.kernel.plans.collisions import collision_refusal
from aop.kernel.plans.needed_locks import check_held
from aop.kernel.plans.obligations.accounting import ScannedSpec, accounted, scanned_spec
from aop.kernel.plans.waiting_queue import block, leave_queue, reconsider, when_waiting
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import GivenMappings, ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import Transaction


class Submit(ChangeArguments, frozen=True, kw_only=True):
    plan_json: Plan
    obligations: GivenMappings | None = None
    """What becomes of each obligation of the spec, as `feature.get_context` numbers them. What is not named here is
    shown to the reviewer as unaccounted for. A revision without this keeps what was said before."""


S = TypeVar("S", bound=Submit)


class Update(Submit, frozen=True, kw_only=True):
    expected_plan_version: Annotated[int, Meta(ge=1)]


class Accepted(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    plan_version: int
    status: Status
    gates: Mapping[str, Verdict]


def submit(call: Call, arguments: Submit) -> Outcome:
    """Accept a feature's first plan, and let building begin."""
    arguments = _without_secrets(call, arguments)
    spec = _spec(call.kernel, arguments)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_first(arguments.plan_json, tx.get(AcceptedPlan, state.feature_id))
        must_be(state, Status.PLANNING, *when_waiting(tx, state), to="get its first plan")
        return _accept_or_block(tx, call, state, arguments, spec)

    return call.commit(decide)


def update(call: Call, arguments: Update) -> Outcome:
    """Replace the accepted plan by a revision that passes every check again; what is in the worktree stays."""
    arguments = _without_secrets(call, arguments)
    spec = _spec(call.kernel, arguments)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_revision(arguments.plan_json, tx.get(AcceptedPlan, state.feature_id), arguments.expected_plan_version)
        allowed = (Status.PLANNING, Status.BUILDING, Status.QA)
        must_be(state, *allowed, *when_waiting(tx, state), to="get a revised plan")
        return _accept_or_block(tx, call, state, arguments, spec)

    return call.commit(decide)


def _without_secrets(call: Call, arguments: S) -> S:
    """Return the arguments as they may be kept: a plan is written for people, and shown to all of them."""
    return msgspec.convert(masked(msgspec.to_builtins(arguments), call.kernel.redact.mask_secrets), type(arguments))


def _spec(kernel: Kernel, arguments: Submit) -> ScannedSpec | None:
    """Read what the plan has to account for; a spec that cannot be read is none, unless it must be accounted for.

    Raises: FileNotFound.
    """
    try:
        return scanned_spec(spec_text(kernel, arguments.feature_id))
    except FileNotFound:
        if kernel.config().policy.planning.require_obligations:
            raise
        return None


def _accept_or_block(
    tx: Transaction, call: Call, state: FeatureState, arguments: Submit, spec: ScannedSpec | None
) -> Outcome:
    """Check a plan against the policy, its spec and all other features, and store it, in the same transaction."""
    config, now = call.kernel.config(), now_by(call.kernel.clock)
    plan, ledger = arguments.plan_json, tx.get(ObligationLedger, state.feature_id)
    accounting = accounted(spec, arguments.obligations, plan, ledger, config.policy)
    weighed = weigh(tx, state, plan, config, accounting)
    if weighed.collisions and config.policy.collision_policy == "block":
        return block(tx, call, state, weighed, now)
    fences = check_held(tx, state, weighed.locks, now)
    if weighed.collisions:
        raise collision_refusal(state.feature_id, weighed.collisions)
    stored = accept(tx, call, state, weighed, fences)
    kind, facts = accepted_event(plan, accounting)
    tx.append(call.event(kind, stored.feature_id, **facts))
    leave_queue(tx, stored.feature_id, now)
    reconsider(tx, call)
    return _accepted(stored, plan)


def _accepted(state: FeatureState, plan: Plan) -> Accepted:
    return Accepted(
        feature_id=state.feature_id,
        version=state.version,
        plan_version=plan.plan_version,
        status=state.status,
        gates=state.gates,
    )


class PlanText(Struct, frozen=True, kw_only=True):
    feature_id: str
    plan_version: int
    plan: Mapping[str, Any]


def get(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the accepted plan."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        accepted = view.get(AcceptedPlan, state.feature_id)
    if accepted is None:
        raise PlanRequired(f"The feature `{state.feature_id}` has no accepted plan.", feature_id=state.feature_id)
    return PlanText(feature_id=state.feature_id, plan_version=accepted.version, plan=msgspec.to_builtins(accepted.plan))


TOOLS = (
    Tool(
        name="plan.submit",
        summary="Submit a feature's first plan: which files it will touch, and how it will be proven.",
        arguments=Submit,
        output=Accepted,
        roles=PLANNERS,
        run=submit,
        mutates=True,
    ),
    Tool(
        name="plan.update",
        summary="Replace the accepted plan by its next version.",
        arguments=Update,
        output=Accepted,
        roles=PLANNERS,
        run=update,
        mutates=True,
    ),
    Tool(
        name="plan.get",
        summary="Return the accepted plan.",
        arguments=FeatureArguments,
        output=PlanText,
        roles=READERS,
        run=get,
    ),
)
