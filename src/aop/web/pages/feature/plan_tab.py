"""Plan tab: the plan with its comments, its versions, and what changed."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from msgspec import Struct

from aop.core.errors import Json
from aop.kernel.features.requests.clauses import clauses_of
from aop.kernel.plans.revisions import ClauseChange
from aop.kernel.record.documents.plans import Plan
from aop.kernel.tools.feature.comments import Comments, PlacedComment
from aop.kernel.tools.plan.versions import PlanVersions
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web.pages.feature.comments import read_comments, talk_about_plan
from aop.web.pages.feature.diff.diff_rows import painted
from aop.web.pages.feature.diff.word_changes import word_changes
from aop.web.pages.frame import Visit


class ChangedClause(Struct, frozen=True, kw_only=True):
    """A clause that changed between two versions, with the comments on either text."""

    change: ClauseChange
    old: Markup
    """The old text, with the words that changed marked."""
    new: Markup
    comments: tuple[PlacedComment, ...]


def plan_tab_facts(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    """Return the accepted plan, its versions, and the changes between the two that the address names."""
    name = summary.state.feature_id
    versions = _versions(visit, name)
    if summary.agent_text is None:
        return {"plan": None, "versions": versions}
    plan = visit.ask("plan.get", {"feature_id": name})
    found = read_comments(visit, name)
    said = found.comments
    return {
        "plan": plan,
        "clauses": clauses_of(msgspec.convert(plan["plan"], Plan)),
        "talk": talk_about_plan(found, visit.query, f"/features/{quote(name)}/plan"),
        "versions": versions,
        "changed": [_changed(each, said) for each in versions.changes],
        "remarks": Counter(each.comment.plan_version for each in said.sent if each.comment.clause),
    }


def _versions(visit: Visit, name: str) -> PlanVersions:
    """Return the versions; numbers in the address that name no two kept ones are ignored."""
    which: dict[str, Json] = {"feature_id": name}
    found = msgspec.convert(visit.ask("plan.versions", which), PlanVersions)
    kept = {str(each.version): each.version for each in found.versions if each.is_kept}
    wanted = {end: kept.get(visit.query.get(end, "")) for end in ("old", "new")}
    if None in wanted.values():
        return found
    return msgspec.convert(visit.ask("plan.versions", {**which, **wanted}), PlanVersions)


def _changed(change: ClauseChange, said: Comments) -> ChangedClause:
    old, new = word_changes(change.old, change.new)
    texts = [text for text in (change.old, change.new) if text]
    return ChangedClause(
        change=change,
        old=painted(change.old, (), old),
        new=painted(change.new, (), new),
        comments=tuple(
            each
            for each in (*said.sent, *said.drafts)
            if each.comment.clause.partition("-")[0] == change.clause and each.comment.quoted in texts
        ),
    )
