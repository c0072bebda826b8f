"""Rows and a width give lines: nothing is wider than the terminal, and no word is cut."""

from __future__ import annotations

import pytest

from aop.cli.screens.styles import Painter
from aop.cli.screens.tables import UNLIMITED, Cell, Column, command_cell, join_wrapped, shorten, table, width_of, wrap

PLAIN, COLOURED = Painter(colour=False), Painter(colour=True)
COLUMNS = (
    Column(title="NAME", shrinks=True),
    Column(title="GATES", from_width=60),
    Column(title="COST", right=True),
    Column(title="NOW"),
)
LONG = "add-payments-export-for-the-accountants"


def row(name: str, now: Cell) -> list[Cell]:
    return [Cell(name), Cell("fast:pass"), Cell("1.50"), now]


def test_a_wide_terminal_shows_every_column_and_phrases_beside_each_other() -> None:
    rows = [row("one", Cell("Ready", "", (Cell("aop review one"),))), row(LONG, Cell(""))]
    assert table(COLUMNS, rows, UNLIMITED, PLAIN) == [
        "NAME                                     GATES      COST  NOW",
        "one                                      fast:pass  1.50  Ready  aop review one",
        "add-payments-export-for-the-accountants  fast:pass  1.50",
    ]


def test_a_narrow_terminal_drops_columns_shortens_names_and_wraps_at_spaces() -> None:
    rows = [row(LONG, Cell("It waits for a long explanation.", "", (Cell("aop retry one"),)))]
    assert table(COLUMNS, rows, 48, PLAIN) == [
        "NAME                   COST  NOW",
        "add-paymen…ccountants  1.50  It waits for a long",
        "                             explanation.",
        "                             aop retry one",
    ]


def test_a_command_stays_whole_and_begins_further_left() -> None:
    rows = [row("one", Cell("Ready", "", (command_cell(f"aop review {LONG}"),))), row("two", command_cell("x" * 35))]
    assert table(COLUMNS, rows, 55, PLAIN) == [
        "NAME  COST  NOW",
        "one   1.50  Ready",
        f"     aop review {LONG}",
        "two   1.50  " + "x" * 35,
    ]


def test_a_long_text_ends_with_a_sign_and_no_half_word() -> None:
    rows = [row("one", Cell("A text that goes on and on and on and on", "", (Cell("aop inbox"),), 2))]
    assert table(COLUMNS, rows, 30, PLAIN) == [
        "NAME  COST  NOW",
        "one   1.50  A text that goes",
        "            on and on and on …",
        "            aop inbox",
    ]


def test_colour_takes_no_room() -> None:
    rows = [row("one", Cell("Ready now", "green"))]
    plain, coloured = (table(COLUMNS, rows, 40, paint) for paint in (PLAIN, COLOURED))
    assert coloured[1] == plain[1].replace("Ready now", "\x1b[32mReady now\x1b[0m")


@pytest.mark.parametrize("width", [30, 40, 79, 80, 110, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    columns = (Column(title="NAME", shrinks=True), Column(title="NOW"))
    text = f"決済をエクスポートする {LONG * 5} and words that are short"
    for line in table(columns, [[Cell(LONG), Cell(text, "", (Cell("aop status"),))]], width, PLAIN):
        assert width_of(line) <= width
    assert all(width_of(line) <= width for line in wrap(text, width))


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("add-payments-export", 19, "add-payments-export"),
        ("add-payments-export", 15, "add-pay…-export"),
        ("add-payments-export", 16, "add-paym…-export"),
        ("決済決済決済", 7, "決…済"),
        ("ab", 1, "…"),
    ],
)
def test_the_middle_of_a_name_gives_way(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("決済", 4), ("e\u0301", 1), ("…", 1)])
def test_width_is_that_of_the_glyphs(text: str, width: int) -> None:
    assert width_of(text) == width


def test_parts_of_a_header_stay_whole() -> None:
    assert join_wrapped(["shop on main", "no supervisor", "2 features"], 30) == [
        "shop on main | no supervisor",
        "2 features",
    ]
