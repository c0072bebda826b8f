"""Tools on plans: the first one, a revision, and reading the accepted one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import PlanRequired
from aop.kernel.calls import Call, ChangeArguments, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.collisions import claims_of, collision_refusal, collisions_with_others
from aop.kernel.config import Config
from aop.kernel.documents import AcceptedPlan, FeatureState, Plan, Status, Verdict
from aop.kernel.features import moved, must_be, store
from aop.kernel.gate_runs import planned_subjects
from aop.kernel.gates import unproven
from aop.kernel.permissions import PLANNERS, READERS
from aop.kernel.plans import check_first, check_plan, check_revision
from aop.kernel.record import Transaction
from aop.kernel.territory import territory_of


class Submit(ChangeArguments, frozen=True, kw_only=True):
    plan_json: Plan


class Update(ChangeArguments, frozen=True, kw_only=True):
    expected_plan_version: Annotated[int, Meta(ge=1)]
    plan_json: Plan


class Accepted(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    plan_version: int
    status: Status
    gates: Mapping[str, Verdict]


def submit(call: Call, arguments: Submit) -> Outcome:
    """Accept a feature's first plan, and let building begin."""
    config = call.kernel.config()
    plan = arguments.plan_json

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_first(plan, tx.get(AcceptedPlan, state.feature_id))
        must_be(state, Status.PLANNING, to="get its first plan")
        stored = _accept(tx, call, state, plan, config)
        tx.append(call.event("plan_accepted", stored.feature_id, plan_version=plan.plan_version, summary=plan.summary))
        return _accepted(stored, plan)

    return call.commit(decide)


def update(call: Call, arguments: Update) -> Outcome:
    """Replace the accepted plan by a revision that passes every check again; what is in the worktree stays."""
    config = call.kernel.config()
    plan = arguments.plan_json

    def decide(tx: Transaction) -> Outcome:
        state = the_feature(tx, arguments)
        check_revision(plan, tx.get(AcceptedPlan, state.feature_id), arguments.expected_plan_version)
        must_be(state, Status.PLANNING, Status.BUILDING, Status.QA, to="get a revised plan")
        stored = _accept(tx, call, state, plan, config)
        tx.append(
            call.event(
                "plan_revised",
                stored.feature_id,
                plan_version=plan.plan_version,
                revision_of=plan.revision_of,
                summary=plan.summary,
            )
        )
        return _accepted(stored, plan)

    return call.commit(decide)


def _accept(tx: Transaction, call: Call, state: FeatureState, plan: Plan, config: Config) -> FeatureState:
    """Check a plan against the policy and all other features, and store it, in the same transaction."""
    bounds = check_plan(plan, state, config)
    claims = claims_of(state.feature_id, plan, bounds, territory_of(config.policy))
    found = collisions_with_others(tx, state.feature_id, claims)
    if found:
        raise collision_refusal(state.feature_id, found)
    before = tx.get(AcceptedPlan, state.feature_id)
    subjects = planned_subjects(state, before.plan if before else None, config)
    tx.set_claims(state.feature_id, claims)
    tx.put(AcceptedPlan(version=plan.plan_version, plan=plan), state.feature_id)
    after = msgspec.structs.replace(state, gate_profile=plan.gate_profile)
    gates = state.gates if planned_subjects(after, plan, config) == subjects else unproven(state.gates)
    after = msgspec.structs.replace(after, gates={**gates, "plan": Verdict.PASS})
    if after.status is Status.PLANNING:
        after = moved(after, Status.BUILDING)
    return store(tx, state, after, now=call.kernel.now())


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
