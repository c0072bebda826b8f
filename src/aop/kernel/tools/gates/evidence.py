"""Tool `evidence.latest`: the newest gate run of each mode."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from aop.kernel.gates.summaries import RunSummary, latest_runs
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS


class LatestRuns(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    latest: RunSummary | None
    by_mode: Mapping[str, RunSummary]


def latest(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the newest gate run of each mode, with the end of its log."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        by_mode = latest_runs(call.kernel, view, state)
    newest = state.evidence.last_gate_run
    return LatestRuns(
        feature_id=state.feature_id,
        tree=state.tree,
        latest=next((run for run in by_mode.values() if run.run_id == newest), None),
        by_mode=by_mode,
    )


TOOLS = (
    Tool(
        name="evidence.latest",
        summary="Return the newest gate run of each mode, whether it is still current, and the end of its log.",
        arguments=FeatureArguments,
        output=LatestRuns,
        roles=READERS,
        run=latest,
    ),
)
