"""The steps of undo and redo, from events alone."""

from __future__ import annotations

import pytest

from aop.core.ids import OperationId
from aop.kernel.features.tree.tree_history import TreeHistory, history_of
from aop.kernel.record.port import Event

KINDS = {
    "begin": "feature_initialised",
    "rebase": "feature_rebased",
    "patch": "patch_applied",
    "undo": "tree_undone",
    "redo": "tree_redone",
}


def events(told: str) -> list[Event]:
    """Return the events of a text such as `begin patch:A undo:base`; an event without a tree names none."""
    found = []
    for word in told.split():
        kind, _, tree = word.partition(":")
        payload = {"tree": tree} if tree else {}
        found.append(Event(kind=KINDS[kind], at="", actor="", operation_id=OperationId("op"), payload=payload))
    return found


@pytest.mark.parametrize(
    ("told", "previous", "following"),
    [
        ("", None, None),
        ("begin", None, None),
        ("begin patch:A", "base", None),
        ("begin patch:A patch:B", "A", None),
        ("begin patch:A patch:B undo:A", "base", "B"),
        ("begin patch:A patch:B undo:A undo:base", None, "A"),
        ("begin patch:A patch:B undo:A undo:base redo:A", "base", "B"),
        ("begin patch:A patch:B undo:A undo:base redo:A redo:B", "A", None),
        ("begin patch:A patch:B undo:A patch:C", "A", None),
        ("begin patch:A patch:B undo:A patch:C undo:A", "base", "C"),
        ("begin patch:A patch:B undo:base", None, "A"),
        # A tree that was cut off comes back as a new step.
        ("begin patch:A patch:B undo:A patch:C undo:B", "C", None),
        # `undo --to` may name a later tree.
        ("begin patch:A patch:B undo:base undo:B", "A", None),
        # The same tree twice: each undo takes the nearest place.
        ("begin patch:A patch:B patch:A undo:B", "A", "A"),
        ("begin patch:A patch:B patch:A undo:B undo:A", "base", "B"),
        ("begin patch:A patch:B undo:A rebase:R", None, None),
        ("begin patch:A rebase:R patch:S", "R", None),
        # A feature of the same name that was deleted and made again.
        ("begin patch:A begin patch:B", "base", None),
    ],
)
def test_undo_and_redo_lead_to(told: str, previous: str | None, following: str | None) -> None:
    history = history_of(events(told), "base")
    assert (history.previous, history.next) == (previous, following)


def test_a_history_keeps_the_trees_that_a_redo_can_reach() -> None:
    told = "begin patch:A patch:B undo:A undo:base"
    assert history_of(events(told), "base") == TreeHistory(trees=("base", "A", "B"), at=0)
