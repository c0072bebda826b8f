"""Journal page: everything that happened, and the board as it was then."""

from __future__ import annotations

from typing import Any

from aop.core.errors import Json
from aop.core.ids import is_feature_id
from aop.web.pages.frame import Visit


def journal_facts(visit: Visit) -> dict[str, Any]:
    """Return a page of the journal: what is searched for, before a number."""
    feature, text, kind = (visit.query.get(name, "").strip() for name in ("feature", "text", "kind"))
    asked: dict[str, Json] = {"text": text[:200], "kind": kind[:100]}
    if before := number_in(visit.query.get("before", "")):
        asked["before"] = before
    if is_feature_id(feature):
        asked["feature_id"] = feature
    page = visit.ask("report.journal", asked)
    return {"page": page, "feature": feature, "text": text, "kind": kind, "is_first": "before" not in asked}


def past_facts(visit: Visit) -> dict[str, Any]:
    """Return the board at a number of the journal; without one, at the newest."""
    newest = visit.door.newest_seq()
    at = min(number_in(visit.query.get("at", "")) or newest, newest)
    return {"past": visit.ask("report.past", {"seq": at}) if at else None, "newest": newest}


def number_in(text: str) -> int:
    """Return a number of the journal that an address names; 0 for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else 0
