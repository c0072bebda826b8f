"""Acceptance of a plan: assessed against policy and other features, then stored."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import store_feature, with_status
from aop.kernel.features.opened_paths import opened_paths
from aop.kernel.features.requests.change_requests import close_requests, pass_on_to_builder
from aop.kernel.gates.gate_runs import subjects_by_mode
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call
from aop.kernel.plans.checks import check_plan
from aop.kernel.plans.collisions import Collision, claims_of, collisions_with_others
from aop.kernel.plans.needed_locks import locks_for_plan
from aop.kernel.plans.obligations.accounting import unaccounted
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import Collisions, FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import Accounting, ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import Claim, Snapshot, Transaction


class PlanAssessment(Struct, frozen=True, kw_only=True):
    """A valid plan with the claims and locks that it needs, and its collisions."""

    plan: Plan
    claims: tuple[Claim, ...]
    locks: tuple[str, ...]
    collisions: tuple[Collision, ...]
    accounting: Accounting | None = None


def assess_plan(
    view: Snapshot, state: FeatureState, plan: Plan, config: Config, accounting: Accounting | None = None
) -> PlanAssessment:
    """Check a plan as `check_plan` does, and find its claims, locks and collisions."""
    bounds = check_plan(plan, state, config, opened=opened_paths(view, state.feature_id))
    claims = claims_of(state.feature_id, plan, bounds.entries, guarded_areas_of(config.policy))
    return PlanAssessment(
        plan=plan,
        claims=claims,
        locks=locks_for_plan(plan, bounds, config.policy),
        collisions=collisions_with_others(view, state.feature_id, claims),
        accounting=accounting,
    )


def accept_plan(
    tx: Transaction, call: Call, state: FeatureState, assessment: PlanAssessment, fences: Mapping[str, int]
) -> FeatureState:
    """Store a plan without collisions, under the locks that its feature holds."""
    config, plan = call.kernel.config(), assessment.plan
    before = tx.get(AcceptedPlan, state.feature_id)
    subjects = subjects_by_mode(state, before.plan if before else None, config)
    tx.set_claims(state.feature_id, assessment.claims)
    tx.put(AcceptedPlan(version=plan.plan_version, plan=plan), state.feature_id)
    if assessment.accounting is not None:
        version = next_version(tx.get(ObligationLedger, state.feature_id))
        tx.put(ObligationLedger(version=version, accounting=assessment.accounting), state.feature_id)
    after = msgspec.structs.replace(
        without_block(state, f"Plan {plan.plan_version} was accepted: it no longer collides with another plan."),
        gate_profile=plan.gate_profile,
        collisions=Collisions(),
        locks=msgspec.structs.replace(state.locks, relied_on=dict(fences)),
    )
    gates = state.gates if subjects_by_mode(after, plan, config) == subjects else reset_verdicts(state.gates)
    after = msgspec.structs.replace(after, gates={**gates, "plan": Verdict.PASS})
    # A plan that was made before its predecessor was rejected does not answer the rejection.
    is_rejected = close_requests(tx, call, state.feature_id, "rejection")
    is_commented = pass_on_to_builder(tx, call, state.feature_id)
    if after.status is Status.PLANNING and not (is_rejected or is_commented):
        after = with_status(after, Status.BUILDING, reason=after.status_reason)
    return store_feature(tx, state, after, now=call.kernel.now())


def without_block(state: FeatureState, reason: str) -> FeatureState:
    """Return a blocked feature in its status before, with a reason; any other unchanged."""
    if state.status is not Status.BLOCKED:
        return state
    return with_status(state, state.blocked_from or Status.PLANNING, reason=reason)


def acceptance_event(plan: Plan, accounting: Accounting | None) -> tuple[str, dict[str, Json]]:
    """Return the kind and the facts of the event for an accepted plan."""
    facts: dict[str, Json] = {"plan_version": plan.plan_version, "summary": plan.summary}
    if accounting is not None and accounting.found:
        facts["obligations"] = {
            "spec_sha256": accounting.spec_sha256,
            "mapped": msgspec.to_builtins(accounting.mapped),
            "unaccounted": [each.id for each in unaccounted(accounting)],
        }
    # The document keeps the newest plan alone; every version stays in the journal.
    facts["plan"] = msgspec.to_builtins(plan)
    if plan.revision_of is None:
        return "plan_accepted", facts
    return "plan_revised", {**facts, "revision_of": plan.revision_of}
