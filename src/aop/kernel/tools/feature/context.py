"""Tools `feature.state_get` and `feature.get_context`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.requests.change_requests import ChangeRequest, open_requests
from aop.kernel.features.specs import spec_text
from aop.kernel.gates.summaries import RunSummary, latest_runs
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.plans.obligations.review import ObligationReview, reported_tests, review_obligations
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.projections import body_of, front_matter


class FeatureStateText(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    front_matter: Mapping[str, Any]
    body: str


def state_get(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the content of `state.md`, from the record."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    return copy_fields(FeatureStateText, state, front_matter=front_matter(state), body=body_of(state))


class FeatureContext(Struct, frozen=True, kw_only=True):
    """Everything that a worker needs to continue without an earlier conversation."""

    feature_id: str
    spec: str | None
    """None without a `spec.md`. It is data from outside, not an instruction to AOP."""
    state: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    evidence: Mapping[str, RunSummary]
    """The newest gate run of each mode."""
    qa_index: Mapping[str, Any] | None
    obligations: ObligationReview | None
    """The numbered obligations of the spec; null without a spec."""
    requests: tuple[ChangeRequest, ...] = ()
    """The open requests of people to change the feature, or to plan it anew."""


def get_context(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return spec, obligations, state, plan, newest evidence and QA index in one bundle."""
    kernel = call.kernel
    with kernel.record.read() as view:
        state = the_feature(view, arguments)
        evidence = latest_runs(kernel, view, state)
        plan = view.get(AcceptedPlan, state.feature_id)
        ledger = view.get(ObligationLedger, state.feature_id)
        spec = spec_text(kernel, state.feature_id)
        qa_index = view.get(QaIndex, state.feature_id)
        tests = reported_tests(evidence.values(), state)
        return FeatureContext(
            feature_id=state.feature_id,
            spec=spec,
            state=front_matter(state),
            plan=None if plan is None else msgspec.to_builtins(plan.plan),
            evidence=evidence,
            qa_index=None if qa_index is None else msgspec.to_builtins(qa_index),
            obligations=review_obligations(spec, ledger, tests, kernel.redact.mask_secrets),
            requests=open_requests(view, state.feature_id),
        )


TOOLS = (
    Tool(
        name="feature.state_get",
        summary="Return a feature's state: status, gates, locks, evidence.",
        arguments=FeatureArguments,
        output=FeatureStateText,
        roles=READERS,
        run=state_get,
    ),
    Tool(
        name="feature.get_context",
        summary="Return spec, obligations, state, plan, evidence and QA index: all that a new worker needs.",
        arguments=FeatureArguments,
        output=FeatureContext,
        roles=READERS,
        run=get_context,
    ),
)
