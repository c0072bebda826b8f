"""Checks on a plan alone: all violations are reported at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from aop.core.errors import (
    InvalidPlan,
    PathOutOfBounds,
    PlanAlreadyAccepted,
    PlanRequired,
    ProtectedPath,
    Refusal,
    VersionConflict,
)
from aop.core.paths.names import Area, BadPattern, Matching, PlannedPath, overlap, parse_area, parse_planned
from aop.kernel.config.guarded_areas import GuardedAreas, guarded_areas_of
from aop.kernel.config.in_force import Config
from aop.kernel.config.policy import Policy
from aop.kernel.gates.steps import check_overrides, profile_named, refuse_escape
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan, Plan


class Violation(Struct, frozen=True, kw_only=True):
    """One violation of the rules for plans."""

    field: str
    reason: str
    refusal: type[Refusal] = InvalidPlan


class Bounds(Struct, frozen=True, kw_only=True):
    """A plan's areas and files, parsed: the bounds of its patches."""

    allowed: tuple[Area, ...]
    forbidden: tuple[Area, ...]
    create: tuple[PlannedPath, ...]
    modify: tuple[PlannedPath, ...]
    delete: tuple[PlannedPath, ...]

    @property
    def entries(self) -> tuple[PlannedPath, ...]:
        """Return all planned files."""
        return (*self.create, *self.modify, *self.delete)


def bounds_of(plan: Plan, policy: Policy) -> Bounds:
    """Parse an accepted plan; it was checked when it was accepted."""
    matching = Matching(policy.path_rules.matching)
    return Bounds(
        allowed=tuple(parse_area(text, matching) for text in plan.allowed_areas),
        forbidden=tuple(parse_area(text, matching) for text in plan.forbidden_areas),
        create=tuple(parse_planned(text) for text in plan.files.create),
        modify=tuple(parse_planned(text) for text in plan.files.modify),
        delete=tuple(parse_planned(text) for text in plan.files.delete),
    )


def check_plan(plan: Plan, state: FeatureState, config: Config, *, opened: frozenset[str] = frozenset()) -> Bounds:
    """Check a plan without regard to other features; a refusal lists all violations of its kind.

    `opened` are the guarded paths that a person opened for the feature.
    """
    if plan.feature_id != state.feature_id:
        refuse_violations([Violation(field="feature_id", reason=f"it must be `{state.feature_id}`")])
    refuse_violations([*_path_violations(plan, config.policy)])
    bounds = bounds_of(plan, config.policy)
    territory = guarded_areas_of(config.policy, opened)
    refuse_violations([*_area_violations(bounds, territory), *_duplicate_violations(bounds)])
    refuse_escape(config, plan.gate_profile, lambda area: any(overlap(area, entry) for entry in bounds.entries))
    check_overrides(plan, profile_named(config.gates, plan.gate_profile), config.policy)
    return bounds


def check_first(plan: Plan, accepted: AcceptedPlan | None) -> None:
    """Refuse a submission that is not a feature's first plan (AOP-081). Raises: PlanAlreadyAccepted, InvalidPlan."""
    if accepted is not None:
        raise PlanAlreadyAccepted(
            f"The feature `{plan.feature_id}` already has plan {accepted.version}.", plan_version=accepted.version
        )
    wrong = []
    if plan.plan_version != 1:
        wrong.append(Violation(field="plan_version", reason="the first plan has version 1"))
    if plan.revision_of is not None:
        wrong.append(Violation(field="revision_of", reason="the first plan revises nothing"))
    refuse_violations(wrong)


def check_revision(plan: Plan, accepted: AcceptedPlan | None, expected: int) -> AcceptedPlan:
    """Refuse a revision that does not follow the accepted plan (AOP-082, AOP-168)."""
    if accepted is None:
        raise PlanRequired(f"The feature `{plan.feature_id}` has no plan to revise.", feature_id=plan.feature_id)
    if accepted.version != expected:
        raise VersionConflict(f"The plan of `{plan.feature_id}`", expected=expected, current=accepted.version)
    wrong = []
    if plan.plan_version != expected + 1:
        wrong.append(Violation(field="plan_version", reason=f"it must be {expected + 1}"))
    if plan.revision_of != expected:
        wrong.append(Violation(field="revision_of", reason=f"it must be {expected}"))
    refuse_violations(wrong)
    return accepted


def refuse_violations(wrong: Sequence[Violation]) -> None:
    """Refuse a plan with all of its violations, if there are any."""
    if wrong:
        first = wrong[0]
        raise first.refusal(
            f"The plan is not valid: `{first.field}`: {first.reason}"
            + (f" (and {len(wrong) - 1} more)." if len(wrong) > 1 else "."),
            violations=[{"field": each.field, "reason": each.reason, "code": each.refusal.code} for each in wrong],
        )


def _path_violations(plan: Plan, policy: Policy) -> Iterator[Violation]:
    matching = Matching(policy.path_rules.matching)
    for field in ("allowed_areas", "forbidden_areas"):
        for number, text in enumerate(getattr(plan, field)):
            try:
                parse_area(text, matching)
            except BadPattern as error:
                yield Violation(field=f"{field}[{number}]", reason=str(error))
    for field in ("create", "modify", "delete"):
        for number, text in enumerate(getattr(plan.files, field)):
            try:
                parse_planned(text)
            except (BadPattern, PathOutOfBounds) as error:
                refusal = PathOutOfBounds if isinstance(error, PathOutOfBounds) else InvalidPlan
                yield Violation(field=f"files.{field}[{number}]", reason=str(error), refusal=refusal)


def _area_violations(bounds: Bounds, territory: GuardedAreas) -> Iterator[Violation]:
    for entry in bounds.entries:
        guard = territory.guard_of_planned(entry)
        if guard:
            yield Violation(field=entry.text, reason=guard, refusal=ProtectedPath)
        if not any(_lies_in(entry, area) for area in bounds.allowed):
            yield Violation(field=entry.text, reason="it lies outside `allowed_areas`")
        if any(overlap(area, entry) for area in bounds.forbidden):
            yield Violation(field=entry.text, reason="it lies in `forbidden_areas`")


def _lies_in(entry: PlannedPath, area: Area) -> bool:
    return area.text in ("**", entry.text) or area.covers(entry.stem)


def _duplicate_violations(bounds: Bounds) -> Iterator[Violation]:
    for text, times in Counter(entry.fold for entry in bounds.entries).items():
        if times > 1:
            yield Violation(field=text, reason="it is named more than once in `files`")
