"""Entries of the logs on a terminal: rows below a header, a line for each day, and no word cut."""

from __future__ import annotations

from aop.cli.history.log_rows import LogRows
from aop.cli.screens.styles import Painter, Screen
from aop.core.ids import FeatureId, OperationId
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.record.port import Event, JournalEntry

NARROW = Screen(width=60, paint=Painter(colour=False))
LONG = "add-payments-export-for-accountants"


def event(seq: int, day: int, **payload: str) -> JournalEntry:
    happened = Event(
        kind="gates_ran",
        at=f"2026-01-0{day}T03:04:05.678Z",
        actor=f"qa:{LONG}",
        operation_id=OperationId("op-1"),
        feature_id=FeatureId(LONG),
        payload=payload,
    )
    return JournalEntry(seq=seq, event=happened, previous_hash="", hash="")


CALL = LoggedCall(
    at="2026-01-02T04:00:00.000Z",
    actor="person:ada",
    role="orchestrator",
    tool="feature.retry",
    feature_id=None,
    operation_id="op-2",
    milliseconds=1.25,
    outcome="unknown_feature",
)


def test_entries_follow_each_other_below_one_header() -> None:
    rows = LogRows(["shop on main"], NARROW)
    first = [
        line for entry in (event(7, 1, tree="0123456789" * 4, note="two words"), CALL) for line in rows.lines(entry)
    ]
    assert first == [
        "shop on main",
        "",
        "TIME      NUMBER  FEATURE           EVENT OR CALL",
        "2026-01-01, UTC",
        "03:04:05      #7  add-paym…untants  gates_ran  by qa",
        "          tree=012345678901…90123456789 note=two words",
        "2026-01-02, UTC",
        "04:00:00    call  -                 feature.retry by",
        "                                    person:ada:",
        "                                    unknown_feature, 1.2 ms",
    ]
    assert list(rows.lines(event(8, 2))) == ["03:04:05      #8  add-paym…untants  gates_ran  by qa"]


def test_what_steers_a_terminal_is_shown_and_a_long_fact_ends_with_a_sign() -> None:
    rows = LogRows([], NARROW)
    *_, first, second, third = rows.lines(
        event(7, 1, note="\x1b[31m" + "red " * 12, other="word " * 15, more="word " * 15)
    )
    assert first.strip().startswith("note=\\u{1b}[31mred red")
    assert "other=word word" in second
    assert third.endswith(" …")
