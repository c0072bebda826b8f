"""Conflicts as a person reads them."""

from __future__ import annotations

from aop.core.text.conflicts import KINDS, conflict_lines


def test_each_file_shows_what_happened_and_both_texts_of_each_place() -> None:
    hunk = {"line": 3, "base": "two\n", "ours": "2\n", "theirs": "TWO\nand more\n"}
    shown = conflict_lines([{"path": "src/a.txt", "kind": "both_changed", "hunks": [hunk], "left_out_hunks": 0}])
    assert list(shown) == [
        "  src/a.txt: both changed the same lines",
        "    on the base branch:",
        "      | 2",
        "    in the feature:",
        "      | TWO",
        "      | and more",
    ]


def test_a_side_without_lines_and_places_that_are_left_out_are_named() -> None:
    hunk = {"line": 1, "base": "x\n", "ours": "", "theirs": "y\n"}
    shown = conflict_lines([{"path": "a", "kind": "both_changed", "hunks": [hunk], "left_out_hunks": 2}])
    assert list(shown)[2:] == ["      | (no lines)", "    in the feature:", "      | y", "    and 2 more places"]


def test_names_and_lines_cannot_steer_a_terminal() -> None:
    hunk = {"line": 1, "base": "", "ours": "\x1b[2J", "theirs": "\u202eevil"}
    shown = "\n".join(conflict_lines([{"path": "a\x1b[31m", "kind": "names", "hunks": [hunk], "left_out_hunks": 0}]))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert KINDS["names"] in shown


def test_a_kind_that_is_not_known_is_shown_as_it_is() -> None:
    assert list(conflict_lines([{"path": "a", "kind": "other", "hunks": [], "left_out_hunks": 0}])) == ["  a: other"]
