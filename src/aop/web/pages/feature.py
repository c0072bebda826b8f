"""Feature page: review, trees, plan, evidence and history of one feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.features.opened_paths import YES
from aop.kernel.record.spending import spending_text
from aop.kernel.tools.repo.diff_bundle import DiffBundle, TouchedFile
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web import review_view
from aop.web.pages.frame import Visit

FOLDED_FROM = 500
"""A file with more lines is shown folded."""
MOST_ENTRIES = 500
"""So many entries of its history are shown."""
TABS = ("review", "attempts", "plan", "evidence", "timeline")


class FileDiff(Struct, frozen=True, kw_only=True):
    """One changed file with its lines."""

    file: TouchedFile
    rows: tuple[review_view.DiffRow, ...]
    notes: tuple[str, ...]
    is_folded: bool
    command: str
    """The command that shows the lines that are left out; empty if none are."""


def feature_facts(visit: Visit, tab: str) -> dict[str, Any]:
    """Return what a tab of a feature's page shows. Raises: ToolRefused."""
    which = {"feature_id": visit.path["feature_id"]}
    summary = msgspec.convert(visit.ask("report.feature_summary", which), FeatureSummary)
    facts = {
        "tab": tab,
        "tabs": TABS,
        "summary": summary,
        "state": summary.state,
        "is_approved": any(not each.void_because for each in summary.approvals),
        "spent": spending_text(summary.spent),
        "signers": visit.door.kernel.config().policy.approval.signers,
    }
    return {**facts, **_TABS[tab](visit, summary)}


def _review(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    which = {"feature_id": summary.state.feature_id}
    bundle = msgspec.convert(visit.ask("repo.diff_bundle", which), DiffBundle)
    return {
        "bundle": bundle,
        "files": list(_files(bundle)),
        "warnings": list(review_view.warnings_of(summary, bundle)),
        "gates": [
            {
                "run": run,
                "outcome": review_view.outcome_of(summary, run),
                "subject": review_view.subject_of(summary, run),
                "figures": list(review_view.figures_of(run)),
            }
            for run in bundle.gates.values()
        ],
        "base_text": review_view.base_text(summary),
        "view": review_view,
        "opened": [(each, each.answer == YES) for each in summary.path_answers],
    }


def _files(bundle: DiffBundle) -> Iterator[FileDiff]:
    for file, lines in review_view.files_with_lines(bundle):
        rows = tuple(row for row in review_view.rows_of(lines) if row.mark)
        yield FileDiff(
            file=file,
            rows=rows,
            notes=tuple(review_view.notes_of(file)),
            is_folded=len(rows) > FOLDED_FROM,
            command=review_view.diff_command(bundle, file) if file.left_out_lines else "",
        )


def _attempts(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    return {"trees": visit.ask("feature.trees", {"feature_id": summary.state.feature_id})}


def _plan(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    if summary.agent_text is None:
        return {"plan": None}
    return {"plan": visit.ask("plan.get", {"feature_id": summary.state.feature_id})}


def _evidence(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    return {"latest": visit.ask("evidence.latest", {"feature_id": summary.state.feature_id})}


def _timeline(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    with visit.door.kernel.record.read() as view:
        name = FeatureId(summary.state.feature_id)
        entries = list(view.journal(feature_id=name, newest=MOST_ENTRIES))
    return {"entries": entries[::-1]}


_TABS: Mapping[str, Callable[[Visit, FeatureSummary], dict[str, Any]]] = {
    "review": _review,
    "attempts": _attempts,
    "plan": _plan,
    "evidence": _evidence,
    "timeline": _timeline,
}
