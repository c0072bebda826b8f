"""Feature page: review, trees, plan, evidence and history of one feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from aop.core.ids import FeatureId
from aop.kernel.features.opened_paths import YES
from aop.kernel.record.documents.features import TERMINAL, Status
from aop.kernel.record.spending import spending_text
from aop.kernel.tools.feature.objections import AFTER_ITS_PLAN
from aop.kernel.tools.repo.diff_bundle import DiffBundle
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web import comment_view, review_view
from aop.web.pages.feature.comments import read_comments, talk_about_diff
from aop.web.pages.feature.diff.diff_files import diff_files
from aop.web.pages.feature.diff.file_tree import tree_rows
from aop.web.pages.feature.diff.page_query import read_query
from aop.web.pages.feature.evidence_tab import evidence_facts
from aop.web.pages.feature.feature_log import log_facts
from aop.web.pages.feature.plan_tab import plan_tab_facts
from aop.web.pages.frame import ToolRefused, Visit

MOST_ENTRIES = 500
"""So many entries of its history are shown."""
TABS = ("review", "log", "attempts", "plan", "evidence", "timeline")


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
        "words": comment_view,
        "can_comment": summary.state.status not in TERMINAL and not summary.state.is_build,
        "can_request": summary.state.status in AFTER_ITS_PLAN
        or (summary.state.status is Status.PLANNING and summary.agent_text is not None),
        "can_reject": summary.state.status in AFTER_ITS_PLAN and not summary.state.is_build,
        "signers": visit.door.kernel.config().policy.approval.signers,
    }
    return {**facts, **_TABS[tab](visit, summary)}


def _review(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    which = {"feature_id": summary.state.feature_id}
    bundle = msgspec.convert(visit.ask("repo.diff_bundle", which), DiffBundle)
    query = read_query(f"/features/{quote(bundle.feature_id)}", visit.query)
    files = list(diff_files(bundle, query, lambda path: _lines(visit, bundle, path)))
    return {
        "bundle": bundle,
        "files": files,
        "talk": talk_about_diff(read_comments(visit, bundle.feature_id), files, visit.query, query.link()),
        "tree": list(tree_rows(files)),
        "address": query.link(),
        "query": query,
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


def _lines(visit: Visit, bundle: DiffBundle, path: str) -> list[str] | None:
    """Return the lines of a file of the tree that is shown; None if they cannot be read as text in one go."""
    try:
        answer = visit.ask("repo.read_file", {"feature_id": bundle.feature_id, "path": path})
    except ToolRefused:
        return None
    if answer["tree"] != bundle.tree or answer["encoding"] != "utf-8" or answer["truncated"]:
        return None
    content: str = answer["content"]
    return content.removesuffix("\n").split("\n")


def _attempts(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    which = {"feature_id": summary.state.feature_id}
    ends = {name: visit.query.get(name, "") for name in ("from", "to")}
    facts: dict[str, Any] = {"trees": visit.ask("feature.trees", which), "ends": ends, "files": None}
    if not any(ends.values()):
        return facts
    wanted = {"old": ends["from"], "new": ends["to"]}
    asked = {**which, **{name: tree for name, tree in wanted.items() if tree}}
    bundle = msgspec.convert(visit.ask("repo.diff_bundle", asked), DiffBundle)
    query = read_query(f"/features/{quote(bundle.feature_id)}/attempts", visit.query, kept=ends)
    return {**facts, "files": list(diff_files(bundle, query, None)), "query": query, "bundle": bundle}


def _timeline(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    with visit.door.kernel.record.read() as view:
        name = FeatureId(summary.state.feature_id)
        entries = list(view.journal(feature_id=name, newest=MOST_ENTRIES))
    return {"entries": entries[::-1]}


_TABS: Mapping[str, Callable[[Visit, FeatureSummary], dict[str, Any]]] = {
    "review": _review,
    "log": lambda visit, summary: log_facts(visit, summary.state.feature_id),
    "attempts": _attempts,
    "plan": plan_tab_facts,
    "evidence": evidence_facts,
    "timeline": _timeline,
}
