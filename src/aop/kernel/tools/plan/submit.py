"""Tools `plan.submit`, `plan.update` and `plan.get`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import FileNotFound, PlanRequired
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import require_status
from aop.kernel.features.specs import spec_text
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import PLANNERS, READERS
from aop.kernel.locks.leases import read_clock
from aop.kernel.plans.acceptance import accept_plan, acceptance_event, assess_plan
from aop.kernel.plans.checks import check_first, check_revision
from aop.kernel.plans.collisions import collision_refusal
from aop.kernel.plans.needed_locks import check_held
from aop.kernel.plans.obligations.accounting import ScannedSpec, account_for_plan, scan_spec_text
from aop.kernel.plans.waiting_queue import admit_waiting_plans, leave_queue, queue_plan, statuses_while_waiting
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import GivenMappings, ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import Transaction


class SubmitPlanArguments(ChangeArguments, frozen=True, kw_only=True):
    plan_json: Plan
    obligations: GivenMappings | None = None
    """A mapping for each obligation of the spec, as `feature.get_context` numbers them. An obligation without one is
    shown to the reviewer as unaccounted for. A revision without this field keeps the earlier mappings."""


S = TypeVar("S", bound=SubmitPlanArguments)


class UpdatePlanArguments(SubmitPlanArguments, frozen=True, kw_only=True):
    expected_plan_version: Annotated[int, Meta(ge=1)]


class PlanResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    plan_version: int
    status: Status
    gates: Mapping[str, Verdict]


def submit(call: Call, arguments: SubmitPlanArguments) -> Outcome:
    """Accept a feature's first plan, and let building begin."""
    arguments = _without_secrets(call, arguments)
    spec = _scanned_spec(call.kernel, arguments)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_first(arguments.plan_json, tx.get(AcceptedPlan, state.feature_id))
        require_status(state, Status.PLANNING, *statuses_while_waiting(tx, state), to="get its first plan")
        return _accept_or_block(tx, call, state, arguments, spec)

    return call.commit(decide)


def update(call: Call, arguments: UpdatePlanArguments) -> Outcome:
    """Replace the accepted plan by a revision that passes every check again; the worktree stays."""
    arguments = _without_secrets(call, arguments)
    spec = _scanned_spec(call.kernel, arguments)

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_revision(arguments.plan_json, tx.get(AcceptedPlan, state.feature_id), arguments.expected_plan_version)
        allowed = (Status.PLANNING, Status.BUILDING, Status.QA)
        require_status(state, *allowed, *statuses_while_waiting(tx, state), to="get a revised plan")
        return _accept_or_block(tx, call, state, arguments, spec)

    return call.commit(decide)


def _without_secrets(call: Call, arguments: S) -> S:
    """Return the arguments with masked secrets: a plan is stored and shown to people."""
    return msgspec.convert(mask_json(msgspec.to_builtins(arguments), call.kernel.redact.mask_secrets), type(arguments))


def _scanned_spec(kernel: Kernel, arguments: SubmitPlanArguments) -> ScannedSpec | None:
    """Scan the feature's spec; an unreadable one counts as none, unless the policy requires obligations."""
    try:
        return scan_spec_text(spec_text(kernel, arguments.feature_id))
    except FileNotFound:
        if kernel.config().policy.planning.require_obligations:
            raise
        return None


def _accept_or_block(
    tx: Transaction, call: Call, state: FeatureState, arguments: SubmitPlanArguments, spec: ScannedSpec | None
) -> Outcome:
    """Check a plan against the policy, its spec and all other features, and store it, in the same transaction."""
    config, now = call.kernel.config(), read_clock(call.kernel.clock)
    plan, ledger = arguments.plan_json, tx.get(ObligationLedger, state.feature_id)
    accounting = account_for_plan(spec, arguments.obligations, plan, ledger, config.policy)
    assessment = assess_plan(tx, state, plan, config, accounting)
    if assessment.collisions and config.policy.collision_policy == "block":
        return queue_plan(tx, call, state, assessment, now)
    fences = check_held(tx, state, assessment.locks, now)
    if assessment.collisions:
        raise collision_refusal(state.feature_id, assessment.collisions)
    stored = accept_plan(tx, call, state, assessment, fences)
    kind, facts = acceptance_event(plan, accounting)
    tx.append(call.event(kind, stored.feature_id, **facts, status=stored.status))
    leave_queue(tx, stored.feature_id, now)
    admit_waiting_plans(tx, call)
    return copy_fields(PlanResult, stored, plan_version=plan.plan_version)


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
        summary="Submit a feature's first plan: the files that it will touch, and how it will be proven.",
        arguments=SubmitPlanArguments,
        output=PlanResult,
        roles=PLANNERS,
        run=submit,
        mutates=True,
    ),
    Tool(
        name="plan.update",
        summary="Replace the accepted plan by its next version.",
        arguments=UpdatePlanArguments,
        output=PlanResult,
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
