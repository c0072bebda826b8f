"""Evidence tab: the gate runs, the chain of the journal, its check, the bundle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from starlette.datastructures import QueryParams

from aop.core.errors import Json, PageFormInvalid
from aop.core.ids import FeatureId
from aop.kernel.record.port import JournalEntry
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web.pages.feature.feature_review import bundle_files
from aop.web.pages.frame import ToolRefused, Visit
from aop.web.pages.page_door import PageDoor, Visitor

LINKS = ("plan_accepted", "plan_revised", "patch_applied", "edits_taken", "tree_undone", "tree_redone", "gates_ran")
DECIDED = ("approval_granted", "feature_committed", "feature_rebased", "feature_merged")
MOST_LINKS = 200
"""So many entries of the chain are shown, the newest first."""
_ANCHOR = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})")


class ChainLink(Struct, frozen=True, kw_only=True):
    """An entry of the journal that is proof of the feature."""

    entry: JournalEntry
    facts: str
    """The tree, run or verdict that it is about."""


def evidence_facts(visit: Visit, summary: FeatureSummary) -> dict[str, Any]:
    """Return the newest gate runs and the chain; the check only when it is asked for, because it reads everything."""
    name = FeatureId(summary.state.feature_id)
    with visit.door.kernel.record.read() as view:
        entries = list(view.journal(feature_id=name, kinds=(*LINKS, *DECIDED), newest=MOST_LINKS))
    return {
        "latest": visit.ask("evidence.latest", {"feature_id": name}),
        "chain": [ChainLink(entry=each, facts=", ".join(_facts(each.event.payload))) for each in entries[::-1]],
        "anchor": visit.query.get("anchor", "").strip()[:100],
        **(_verified(visit, name) if "verify" in visit.query else {"verified": None, "broken": ""}),
    }


def _facts(payload: Mapping[str, Json]) -> Iterator[str]:
    for name in ("plan_version", "mode", "verdict", "tree", "merge_commit", "run_sha256"):
        value = payload.get(name)
        if value is not None:
            text = str(value)
            yield f"{name.replace('_', ' ')} {text[:12] if len(text) >= 40 else text}"


def _verified(visit: Visit, name: FeatureId) -> dict[str, Any]:
    request: dict[str, Json] = {"feature_id": name}
    given = visit.query.get("anchor", "").strip()
    match = _ANCHOR.fullmatch(given)
    if given and match is None:
        return {"verified": None, "broken": "This is not an anchor: it has the form SEQ:HASH."}
    if match is not None:
        request["anchor"] = {"seq": int(match[1]), "hash": match[2]}
    try:
        return {"verified": visit.ask("evidence.verify", request), "broken": ""}
    except ToolRefused as refused:
        return {"verified": None, "broken": refused.error["message"]}


def bundle_download(door: PageDoor, visitor: Visitor, fields: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the name and the content of a feature's evidence bundle. Raises: PageFormInvalid, ToolRefused."""
    feature = fields.get("feature_id", "")
    if not feature:
        raise PageFormInvalid("The form lacks feature_id.")
    visit = Visit(door=door, visitor=visitor, path={}, query=QueryParams())
    folder = f"{feature}-evidence"
    return f"{folder}.tar.gz", door.pack(bundle_files(visit.ask, door.kernel, FeatureId(feature)), folder)
