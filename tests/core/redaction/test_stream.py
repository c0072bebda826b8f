"""Masking a text piece by piece: the same as masking it whole, and the places are right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.redaction.redactor import Redactor
from aop.core.redaction.stream import MOST_HELD, SecretPlace, mask_parts

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" * 4
SECRETS = [TOKEN, f'password = "{TOKEN[4:24]}"', f"{KEY}-----END PRIVATE KEY-----"]
WINDOW, MARGIN = 1200, 500

redactor = Redactor()
pieces_of_text = st.lists(st.sampled_from([*SECRETS, "some words ", "é\n", "\n", "a line of prose\r\n", "x" * 60]))


def cut_up(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@given(pieces_of_text, st.integers(min_value=1, max_value=700))
def test_a_text_in_pieces_is_masked_as_a_whole_one(parts: list[str], size: int) -> None:
    text = "\n".join(parts)
    masked = mask_parts(cut_up(text, size), redactor.find, window=WINDOW, margin=MARGIN)
    assert "".join(part.text for part in masked) == redactor(text)


@given(pieces_of_text, st.integers(min_value=1, max_value=700))
def test_every_place_is_the_line_and_column_of_a_secret(parts: list[str], size: int) -> None:
    text = "\n".join(parts)
    masked = mask_parts(cut_up(text, size), redactor.find, window=WINDOW, margin=MARGIN)
    expected = []
    for finding in redactor.find(text):
        before = text[: finding.start]
        column = finding.start - before.rfind("\n")
        expected.append(SecretPlace(rule=finding.rule, line=before.count("\n") + 1, column=column))
    assert [place for part in masked for place in part.places] == expected


@pytest.mark.parametrize("offset", range(40))
def test_a_secret_in_a_line_without_end_is_not_cut_in_two(offset: int) -> None:
    text = " ".join(["word"] * 300) + " " * offset + f" token={TOKEN} " + " ".join(["word"] * 300)
    masked = mask_parts(cut_up(text, 97), redactor.find, window=WINDOW, margin=MARGIN)
    assert "".join(part.text for part in masked) == redactor(text)


def test_no_more_is_held_than_a_few_windows_whatever_comes() -> None:
    endless = cut_up(f"{KEY}{'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC' * 1000}", 100)
    parts = list(mask_parts(endless, redactor.find, window=WINDOW, margin=MARGIN))
    assert len(parts) > 1
    assert all(len(part.text) <= (MOST_HELD + 1) * WINDOW for part in parts)


def test_nothing_comes_of_nothing() -> None:
    assert list(mask_parts([], redactor.find)) == []
    assert list(mask_parts(["", ""], redactor.find)) == []
