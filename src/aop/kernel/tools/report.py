"""Tools that show all features at once."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.kernel.calls import Arguments, Call, Outcome, Tool
from aop.kernel.documents import FeatureState, Status, Verdict
from aop.kernel.permissions import READERS


class DashboardRow(Struct, frozen=True, kw_only=True):
    feature_id: str
    status: Status
    status_reason: str
    gates: Mapping[str, Verdict]
    locks: tuple[str, ...]
    blocked_by: tuple[str, ...]


class Dashboard(Struct, frozen=True, kw_only=True):
    features: tuple[DashboardRow, ...]
    counts: Mapping[str, int]
    """How many features have each status."""


def dashboard(call: Call, _arguments: Arguments) -> Outcome:
    """Return one row for each feature that the caller may reach, and how many there are of each status."""
    with call.kernel.record.read() as view:
        states = [state for state in view.all(FeatureState) if call.principal.reaches(state.feature_id)]
    counts = dict.fromkeys((status.value for status in Status), 0)
    for state in states:
        counts[state.status] += 1
    return Dashboard(features=tuple(_row(state) for state in states), counts=counts)


def _row(state: FeatureState) -> DashboardRow:
    collisions = state.collisions
    blocking = {
        str(each["feature_id"])
        for each in (*collisions.files, *collisions.areas, *collisions.contracts)
        if "feature_id" in each
    }
    return DashboardRow(
        feature_id=state.feature_id,
        status=state.status,
        status_reason=state.status_reason,
        gates=state.gates,
        locks=state.locks.held,
        blocked_by=tuple(sorted(blocking)),
    )


TOOLS = (
    Tool(
        name="report.dashboard",
        summary="Return every feature with its status, gates, locks and what blocks it.",
        arguments=Arguments,
        output=Dashboard,
        roles=READERS,
        run=dashboard,
    ),
)
