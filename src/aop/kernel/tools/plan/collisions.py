"""Tool `collisions.scan`: plans that meet, and features that would conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.merges.merge import base_head
from aop.kernel.merges.trial_merges import ConflictPath, FeatureTip, TrialQuestion, TriedMerge, try_merges
from aop.kernel.plans.collision_matrix import ComparedPlan, SharedPlace, locks_of, shared_places
from aop.kernel.plans.collisions import collision_fingerprint
from aop.kernel.plans.waiting_queue import waiting_plans
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan, QueuedPlan
from aop.kernel.record.port import Snapshot


class Conflict(Struct, frozen=True, kw_only=True):
    """Two sides of a merge that conflict."""

    ours: str | None
    """A feature; null is the base branch."""
    theirs: str
    """The other feature."""
    paths: tuple[ConflictPath, ...]
    """The paths; empty if the two have no common commit, or conflict in names alone."""
    left_out_paths: int
    """How many more there are."""

    @property
    def feature_ids(self) -> tuple[str, ...]:
        """Return the features that are in conflict."""
        return (self.theirs,) if self.ours is None else (self.ours, self.theirs)


class WaitingPlan(Struct, frozen=True, kw_only=True):
    """A plan that collides with others and waits for them."""

    feature_id: str
    plan_version: int
    waits_for: tuple[str, ...]
    """The features that it waits for."""
    detected_at: str
    """Since when it waits."""
    required_resources: tuple[str, ...]
    """The locks that it gets when it is accepted."""
    collision_fingerprint: str
    """Stays the same as long as the collisions do."""


class CollisionScan(Struct, frozen=True, kw_only=True):
    compared_plans: int
    """How many plans were compared, accepted and queued."""
    collisions: tuple[SharedPlace, ...]
    """The places that more than one plan reaches."""
    collision_fingerprint: str
    """Stays the same as long as the same features meet in the same places."""
    waiting: tuple[WaitingPlan, ...]
    """The waiting plans, in the order in which they are examined."""
    conflicts: tuple[Conflict, ...]
    """The trial merges that conflict."""
    untried_merges: int
    """How many trial merges were postponed to keep this call short; the next scan continues."""


def scan(call: Call, _arguments: Arguments) -> Outcome:
    """Compare all plans under the policy as it is now, and try the merges whose sides have moved."""
    kernel, reaches = call.kernel, call.principal.reaches
    config = kernel.config()
    with kernel.record.read() as view:
        states = [state for state in view.all(FeatureState) if state.status not in TERMINAL]
        queue = waiting_plans(view)
        queued = [ComparedPlan(feature_id=each.feature_id, plan=each.plan, queued=True) for each in queue]
        plans = [*_accepted_plans(view, states), *queued]
        known = {tried.between: tried for tried in view.all(TriedMerge)}
    places = shared_places(plans, guarded_areas_of(config.policy), locks_of(config.policy))
    seen = tuple(place for place in places if any(map(reaches, place.feature_ids)))
    tips = [FeatureTip(feature_id=state.feature_id, base=state.base_commit, tree=state.tree) for state in states]
    trials = try_merges(kernel.git, tips, base_head(kernel, config), known)
    _store_trials(kernel, trials.fresh, over=trials.over)
    conflicts = (_conflict(question, tried) for question, tried in trials.conflicts)
    return CollisionScan(
        compared_plans=len(plans),
        collisions=seen,
        collision_fingerprint=collision_fingerprint([(place.collision_fingerprint,) for place in seen]),
        waiting=tuple(_waiting_plan(each) for each in queue if any(map(reaches, (each.feature_id, *each.waits_for)))),
        conflicts=tuple(each for each in conflicts if any(map(reaches, each.feature_ids))),
        untried_merges=trials.untried,
    )


def _accepted_plans(view: Snapshot, states: Sequence[FeatureState]) -> list[ComparedPlan]:
    """Return the plans that hold something."""
    accepted = {each.plan.feature_id: each.plan for each in view.all(AcceptedPlan)}
    return [
        ComparedPlan(feature_id=state.feature_id, plan=accepted[state.feature_id])
        for state in states
        if state.feature_id in accepted
    ]


def _waiting_plan(entry: QueuedPlan) -> WaitingPlan:
    return copy_fields(WaitingPlan, entry, plan_version=entry.plan.plan_version)


def _conflict(question: TrialQuestion, tried: TriedMerge) -> Conflict:
    return Conflict(
        ours=None if question.ours is None else question.ours.feature_id,
        theirs=question.theirs.feature_id,
        paths=tried.paths,
        left_out_paths=tried.left_out_paths,
    )


def _store_trials(kernel: Kernel, fresh: Mapping[str, TriedMerge], *, over: Sequence[str]) -> None:
    """Store the trial merges; a concurrent scan found the same, and the first one's result stays."""
    if not fresh and not over:
        return
    with kernel.record.write() as tx:
        for key in over:
            tx.remove(TriedMerge, key)
        for key, tried in fresh.items():
            last = tx.get(TriedMerge, key)
            if (last.version if last else 0) == tried.version - 1:
                tx.put(tried, key)


TOOLS = (
    Tool(
        name="collisions.scan",
        summary="Find places where plans of several features meet, and features that would conflict if merged now.",
        arguments=Arguments,
        output=CollisionScan,
        roles=READERS,
        run=scan,
    ),
)
