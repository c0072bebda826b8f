"""Inbox page: what waits for a person, oldest first, each with its action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from aop.kernel.tools.report.standings import answer_command
from aop.web.pages.frame import Visit

Kind = Literal["question", "late", "approval", "conflict", "stuck", "wait"]


class InboxRow(Struct, frozen=True, kw_only=True):
    """One thing that waits for a person."""

    kind: Kind
    feature_id: str
    text: str
    since: str
    commands: tuple[str, ...]
    """The commands that do the same as the row's actions."""
    others: tuple[str, ...] = ()
    """The other features that wait for the same."""
    question: Mapping[str, Any] | None = None
    tree: str = ""
    """Of an approval: the tree that waits."""
    files: tuple[str, ...] = ()
    """Of a conflict: the files in it."""


def inbox_rows(visit: Visit, dashboard: Mapping[str, Any]) -> list[InboxRow]:
    """Return what waits for a person, oldest first."""
    inbox = visit.ask("inbox.list")
    rows = [*_asked(inbox), *_late(dashboard), *_ready(inbox), *_in_conflict(inbox)]
    waits = list(_waiting(inbox))
    shown = {name for row in (*rows, *waits) for name in (row.feature_id, *row.others)}
    rows += _stuck(dashboard, shown)
    return [*sorted(rows, key=lambda row: row.since), *waits]


def _asked(inbox: Mapping[str, Any]) -> Iterator[InboxRow]:
    for each in inbox["questions"]:
        yield InboxRow(
            kind="question",
            feature_id=each["feature_id"],
            text=each["text"],
            since=each["asked_at"],
            commands=(answer_command(each["question_id"], each["choices"]),),
            others=tuple(each["features"]),
            question=each,
        )


def _ready(inbox: Mapping[str, Any]) -> Iterator[InboxRow]:
    for each in inbox["approvals"]:
        yield InboxRow(
            kind="approval",
            feature_id=each["feature_id"],
            text="Ready to merge.",
            since=each["since"],
            commands=tuple(each["commands"]),
            tree=each["tree"],
        )


def _in_conflict(inbox: Mapping[str, Any]) -> Iterator[InboxRow]:
    for each in inbox["conflicts"]:
        yield InboxRow(
            kind="conflict",
            feature_id=each["feature_id"],
            text="Conflicts with the base branch.",
            since=each["since"],
            commands=tuple(each["commands"]),
            files=tuple(each["paths"]),
        )


def _late(dashboard: Mapping[str, Any]) -> Iterator[InboxRow]:
    """Return the features whose question was not answered in time; the next supervisor goes on without an answer."""
    for row in dashboard["features"]:
        if row["out_of_time"]:
            yield InboxRow(
                kind="late",
                feature_id=row["feature_id"],
                text=f"{row['question']} ({row['waits']})",
                since=row["changed_at"],
                commands=("aop resume",),
            )


def _stuck(dashboard: Mapping[str, Any], shown: set[str]) -> Iterator[InboxRow]:
    for row in dashboard["features"]:
        if row["next_command"].startswith("aop retry") and row["feature_id"] not in shown:
            yield InboxRow(
                kind="stuck",
                feature_id=row["feature_id"],
                text=row["waits"],
                since=row["changed_at"],
                commands=(row["next_command"],),
            )


def _waiting(inbox: Mapping[str, Any]) -> Iterator[InboxRow]:
    """Return the waits for providers, last: their features continue by themselves."""
    for each in inbox["waits"]:
        first, *others = each["features"]
        yield InboxRow(
            kind="wait",
            feature_id=first,
            text=each["reason"],
            since="",
            commands=(f"aop resume {first}",),
            others=tuple(others),
        )
