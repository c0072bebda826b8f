"""`collisions.scan`: where the plans of all features meet, whichever feature they are of."""

from __future__ import annotations

from msgspec import Struct

from aop.kernel.calls import Arguments, Call, Outcome, Tool
from aop.kernel.collision_matrix import ComparedPlan, SharedPlace, shared_places
from aop.kernel.collisions import fingerprint
from aop.kernel.documents import TERMINAL, AcceptedPlan, FeatureState
from aop.kernel.permissions import READERS
from aop.kernel.record import Snapshot
from aop.kernel.territory import territory_of


class Scanned(Struct, frozen=True, kw_only=True):
    compared_plans: int
    """How many plans were compared, accepted and queued."""
    collisions: tuple[SharedPlace, ...]
    """What plans say: each place that more than one of them reaches."""
    collision_fingerprint: str
    """The same as long as the same features meet in the same places."""


def scan(call: Call, _arguments: Arguments) -> Outcome:
    """Compare all plans with each other, under the policy as it is now."""
    policy = call.kernel.config().policy
    with call.kernel.record.read() as view:
        plans = _compared_plans(view)
    found = shared_places(plans, territory_of(policy), policy.locks.contract_to_resource)
    seen = tuple(place for place in found if any(map(call.principal.reaches, place.feature_ids)))
    return Scanned(
        compared_plans=len(plans),
        collisions=seen,
        collision_fingerprint=fingerprint([(place.collision_fingerprint,) for place in seen]),
    )


def _compared_plans(view: Snapshot) -> list[ComparedPlan]:
    """Return the plans that hold something: those of features that have not ended."""
    accepted = {each.plan.feature_id: each.plan for each in view.all(AcceptedPlan)}
    return [
        ComparedPlan(feature_id=state.feature_id, plan=accepted[state.feature_id])
        for state in view.all(FeatureState)
        if state.status not in TERMINAL and state.feature_id in accepted
    ]


TOOLS = (
    Tool(
        name="collisions.scan",
        summary="Return every place that the plans of more than one feature reach.",
        arguments=Arguments,
        output=Scanned,
        roles=READERS,
        run=scan,
    ),
)
