"""Tool `plan.versions`: every accepted plan of a feature, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Call, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.plans.revisions import ClauseChange, PlanVersion, plan_changes, plan_versions

Version = Annotated[int, Meta(ge=1, le=10**9)]


class PlanVersionsArguments(FeatureArguments, frozen=True, kw_only=True):
    old: Version | None = None
    """The version to compare with; null for the one before `new`."""
    new: Version | None = None
    """The version that is compared; null for the newest."""


class PlanVersionRow(Struct, frozen=True, kw_only=True):
    """An accepted version of a plan."""

    version: int
    at: str
    """When it was accepted, in UTC."""
    by: str
    """The planner, or the person, that submitted it."""
    seq: int
    """The number of the journal at which it was accepted."""
    why: str
    """The reason that the revision gives; empty for a first plan, and where none is given."""
    summary: str
    is_kept: bool
    """Whether its whole text is kept; an older AOP kept that of the newest version alone."""


class PlanVersions(Struct, frozen=True, kw_only=True):
    feature_id: str
    versions: tuple[PlanVersionRow, ...]
    """The versions of its plan, the oldest first; empty before the first is accepted."""
    earlier: tuple[PlanVersionRow, ...]
    """Plans from before the feature began anew; they are counted by themselves."""
    old: int | None
    """The version that is compared with; null if there is nothing to compare."""
    new: int | None
    """The version that is compared; null if there is nothing to compare."""
    changes: tuple[ClauseChange, ...]
    """The changes from `old` to `new`, clause by clause; empty if there are none, or nothing is compared."""


def versions(call: Call, arguments: PlanVersionsArguments) -> Outcome:
    """Return the accepted versions of a feature's plan, and the changes between two. Raises: InvalidArguments."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        found = plan_versions(view, state.feature_id)
    present = [each for each in found if not each.is_earlier]
    pair = _pair(present, arguments)
    changes: tuple[ClauseChange, ...] = ()
    if pair is not None and pair[0].plan is not None and pair[1].plan is not None:
        changes = plan_changes(pair[0].plan, pair[1].plan)
    return PlanVersions(
        feature_id=state.feature_id,
        versions=tuple(_row(call.kernel, each) for each in present),
        earlier=tuple(_row(call.kernel, each) for each in found if each.is_earlier),
        old=None if pair is None else pair[0].version,
        new=None if pair is None else pair[1].version,
        changes=msgspec.convert(
            mask_json(msgspec.to_builtins(changes), call.kernel.redact.mask_secrets), tuple[ClauseChange, ...]
        ),
    )


def _pair(present: Sequence[PlanVersion], arguments: PlanVersionsArguments) -> tuple[PlanVersion, PlanVersion] | None:
    """Return the two versions that are compared; None if none are named and there are no two whole texts."""
    is_asked = arguments.old is not None or arguments.new is not None
    newest = present[-1].version if present else 0
    new = arguments.new or newest
    old = arguments.old or new - 1
    by_number = {each.version: each for each in present}
    if not is_asked and (old not in by_number or by_number[old].plan is None):
        return None
    for number in (old, new):
        _refuse_unkept(arguments.feature_id, by_number.get(number), number)
    return by_number[old], by_number[new]


def _refuse_unkept(feature_id: str, found: PlanVersion | None, number: int) -> None:
    if found is None:
        what = f"The plan of `{feature_id}` has no version {number}."
        raise InvalidArguments(what, hint="`plan.versions` without numbers lists its versions.")
    if found.plan is None:
        what = f"The text of version {number} is not kept: an older AOP accepted it, which kept the newest alone."
        raise InvalidArguments(what, hint="Compare versions that were accepted since.")


def _row(kernel: Kernel, each: PlanVersion) -> PlanVersionRow:
    mask = kernel.redact.mask_secrets
    return copy_fields(
        PlanVersionRow, each, why=mask(each.why), summary=mask(each.summary), is_kept=each.plan is not None
    )


TOOLS = (
    Tool(
        name="plan.versions",
        summary="List the accepted versions of a feature's plan, and the changes between two of them.",
        arguments=PlanVersionsArguments,
        output=PlanVersions,
        roles=READERS,
        run=versions,
    ),
)
