"""Search page: everything that has the words, each with the page that shows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from aop.web.pages.frame import Visit

TABS = {"plan": "/plan", "spec": "/plan", "question": "/timeline"}
NEWEST = 20


def search_facts(visit: Visit) -> dict[str, Any]:
    """Return the places and the newest entries of the journal that have all of the words."""
    words = visit.query.get("q", "").strip()[:200]
    if not words:
        return {"words": "", "found": [], "left_out": [], "entries": []}
    answer = visit.ask("report.search", {"text": words})
    entries = visit.ask("report.journal", {"text": words, "limit": NEWEST})["entries"]
    found = [(each, _address(each["kind"], each["feature_id"])) for each in answer["found"]]
    return {"words": words, "found": found, "left_out": answer["left_out"], "entries": entries}


def _address(kind: str, feature: str) -> str:
    return f"/features/{quote(feature, safe='')}{TABS.get(kind, '')}"
