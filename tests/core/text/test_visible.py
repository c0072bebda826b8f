"""Visible text: foreign text cannot be mistaken for something else."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.text.visible import Piece, escapes_in, is_deceptive, pieces, visible, visible_name

SHOWN = {
    "a bidirectional override": ("user\u202e admin", "user\\u{202e} admin"),
    "isolates": ("\u2066x\u2069", "\\u{2066}x\\u{2069}"),
    "a zero-width space": ("pass\u200bword", "pass\\u{200b}word"),
    "a byte order mark": ("\ufeffx", "\\u{feff}x"),
    "a terminal sequence": ("\x1b]8;;x\x07link", "\\u{1b}]8;;x\\u{7}link"),
    "an eight-bit control": ("\x9b31m", "\\u{9b}31m"),
    "a carriage return": ("shown\rhidden", "shown\\u{d}hidden"),
    "a backspace": ("no\b\bok", "no\\u{8}\\u{8}ok"),
    "a line separator": ("a\u2028b", "a\\u{2028}b"),
    "a space that is none": ("a\u00a0b", "a\\u{a0}b"),
    "a filler": ("x\u3164y", "x\\u{3164}y"),
    "a variation selector": ("x\ufe0f", "x\\u{fe0f}"),
    "a tag character": ("x\U000e0041", "x\\u{e0041}"),
    "a lone surrogate": ("x\udc80", "x\\u{dc80}"),
    "a Cyrillic letter in a Latin word": ("p\u0430ypal", "p\\u{430}ypal"),
    "a full-width letter in a Latin word": ("s\uff43ope", "s\\u{ff43}ope"),
    "a mathematical letter in a Latin word": ("\U0001d41aB", "\\u{1d41a}B"),
}
AS_IS = {
    "ASCII with tabs": "\tif x != 1: # ok",
    "German": "Größe übergeben",
    "Russian": "проверка токена",
    "Chinese beside Latin": "中文 text",
    "Greek letters of formulas": "Δx = kΩ",
    "nothing": "",
}


@pytest.mark.hostile("B17")
@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN)
def test_an_escape_stands_for(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", AS_IS.values(), ids=AS_IS)
def test_nothing_is_escaped_in(text: str) -> None:
    assert (visible(text), escapes_in(text)) == (text, ())


def test_escapes_can_be_told_from_text_that_spells_one() -> None:
    assert list(pieces("\\u{202e}\u202e")) == [Piece("\\u{202e}", escaped=False), Piece("\\u{202e}", escaped=True)]
    assert escapes_in("\\u{202e}\u202e") == ("\\u{202e}",)


@given(st.text())
def test_whatever_is_shown_can_be_printed_on_one_line_of_a_terminal(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(letter)[0] not in "CZ" for letter in shown if letter not in " \t")
    assert visible_name(text).replace("\t", " ").isprintable()


@pytest.mark.hostile("I10", "B17")
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("src/app/main.py", "src/app/main.py"),
        ("src/approve this now.md", '"src/approve this now.md"'),
        ('src/"; rm.md', '"src/\\"; rm.md"'),
        ("src/größe.txt", '"src/größe.txt"'),
        ("src/\u0441\u043e\u0440\u0443.py", '"src/\\u{441}\\u{43e}\\u{440}\\u{443}.py"'),
        ("src/a\u202etxt.exe", '"src/a\\u{202e}txt.exe"'),
    ],
)
def test_a_name_that_is_not_quite_plain_is_shown_in_quotes(path: str, shown: str) -> None:
    assert (visible_name(path), is_deceptive(path)) == (shown, "\\u{" in shown)
