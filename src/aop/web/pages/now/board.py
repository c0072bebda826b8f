"""Board page: every feature as a card, in the column of its status."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from aop.kernel.record.documents.runs import WorkRequest
from aop.web.pages.frame import Visit, needs_person

COLUMNS = ("planned", "building", "gates", "needs you", "approved", "merged", "stopped")
FOLDED = frozenset({"merged", "stopped"})
_BY_STATUS = {
    "planning": "planned",
    "building": "building",
    "qa": "building",
    "merged": "merged",
    "blocked": "building",
    "failed": "stopped",
}
TONES = {
    "planned": "",
    "building": "run",
    "gates": "run",
    "needs you": "att",
    "approved": "okk",
    "merged": "okk",
    "stopped": "err",
}


class Card(Struct, frozen=True, kw_only=True):
    """One feature on the board."""

    row: Mapping[str, Any]
    """The feature as `report.dashboard` has it."""
    column: str
    tone: str
    works: bool
    """Whether a living process works on it."""
    more: Mapping[str, Any]
    """Its title, size and attempt, as `report.cards` has them."""
    why: str
    """Why it waits; empty if it does not."""
    command: str
    """The next command of a person; empty if none is needed."""


class Column(Struct, frozen=True, kw_only=True):
    """The features in one state."""

    name: str
    cards: tuple[Card, ...]
    is_folded: bool


def board_facts(visit: Visit, dashboard: Mapping[str, Any], *, supervised: bool) -> dict[str, Any]:
    """Return what the board shows besides its frame; what has no living process is never shown at work."""
    inbox = visit.ask("inbox.list")
    unapproved = {each["feature_id"] for name in ("approvals", "conflicts") for each in inbox[name]}
    rows = dashboard["features"]
    more = {each["feature_id"]: each for each in visit.ask("report.cards")["cards"]}
    cards = [
        # A feature that is a moment younger than the dashboard has its card the next time.
        card_of(row, more.get(row["feature_id"], {}), unapproved, supervised=supervised)
        for row in rows
    ]
    going = [row for row in rows if row["status"] not in ("merged", "failed")]
    return {
        "columns": [
            Column(name=name, cards=tuple(card for card in cards if card.column == name), is_folded=name in FOLDED)
            for name in COLUMNS
        ],
        "total": len(rows),
        "merged": dashboard["counts"]["merged"],
        "at_work": sum(card.works for card in cards),
        "spent": dashboard["spent"],
        "all_paused": bool(going) and all(row["paused"] for row in going),
        "any_going": bool(going),
        "wanted": _wanted(visit, {row["feature_id"] for row in rows}),
    }


def _wanted(visit: Visit, begun: AbstractSet[str]) -> list[str]:
    """Return the features that a person asked for and that no run has taken yet."""
    with visit.door.kernel.record.read() as view:
        return sorted(each.feature_id for each in view.all(WorkRequest) if each.feature_id not in begun)


def card_of(row: Mapping[str, Any], more: Mapping[str, Any], unapproved: AbstractSet[str], *, supervised: bool) -> Card:
    """Return the card of a feature."""
    turn = row["at_work"]
    works = bool(row["gates_at_work"]) or bool(turn and (supervised or turn["role"] == "swe"))
    column = _column(row, unapproved)
    tone, is_approved = TONES[column], column == "approved"
    return Card(
        row=row,
        column=column,
        tone=tone if works or tone != "run" else "",
        works=works,
        more=more,
        why="Approved: it can be merged" if is_approved else row["waits"],
        command=f"aop merge {row['feature_id']}" if is_approved else row["next_command"],
    )


def _column(row: Mapping[str, Any], unapproved: AbstractSet[str]) -> str:
    if row["gates_at_work"]:
        return "gates"
    if row["status"] == "ready_to_merge":
        return "needs you" if row["feature_id"] in unapproved or row["asks"] else "approved"
    if needs_person(row) and row["status"] != "failed":
        return "needs you"
    return _BY_STATUS[row["status"]]
