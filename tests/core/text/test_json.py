"""JSON is read strictly, and written in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.errors import Json
from aop.core.text.json import MAX_JSON_DEPTH, MalformedText, canonical_json, parse_json, pretty_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back_as_the_same_value(value: Json) -> None:
    assert parse_json(canonical_json(value)) == value
    assert parse_json(pretty_json(value)) == value


def test_a_text_may_come_as_bytes_or_as_a_string() -> None:
    assert parse_json(b'{"a": [1, 2.5, "\xc3\xa9"]}') == parse_json('{"a": [1, 2.5, "\u00e9"]}') == {"a": [1, 2.5, "é"]}


def test_the_canonical_form_has_sorted_keys_no_spaces_and_plain_utf8() -> None:
    assert (
        canonical_json({"b": (1, 2.0), "a": {"z": None, "é": True}}) == '{"a":{"z":null,"é":true},"b":[1,2.0]}'.encode()
    )


def test_the_pretty_form_keeps_the_order_and_ends_with_a_newline() -> None:
    assert pretty_json({"b": 1, "a": []}) == b'{\n  "b": 1,\n  "a": []\n}\n'


def test_the_reason_names_the_line() -> None:
    with pytest.raises(MalformedText) as refused:
        parse_json(b'{\n "a": 1,\n b}')
    assert (refused.value.line, str(refused.value)[:16]) == (3, "line 3: it is no")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is not JSON: Expecting value"),
        (b"{'a': 1}", "it is not JSON: Expecting property name enclosed in double quotes"),
        (b"[1] [2]", "it is not JSON: Extra data"),
        (b"\xff", "it is not UTF-8"),
        (b"[NaN]", "it holds a number that is not finite"),
        (b"[-Infinity]", "it holds a number that is not finite"),
        (b"[1e999]", "it holds a number that is not finite"),
        (b"[9223372036854775808]", "it holds an integer of more than 64 bits"),
        (b"[-9223372036854775809]", "it holds an integer of more than 64 bits"),
        (b'{"a": {"x": 1, "y": 2, "x": 1}}', "it has the key 'x' twice in one object"),
        ('["\ud800"]', "it holds a lone surrogate"),
        (b'{"\\udc00": 1}', "it holds a lone surrogate"),
    ],
)
def test_what_is_not_strict_json_is_refused(text: bytes | str, reason: str) -> None:
    with pytest.raises(MalformedText) as refused:
        parse_json(text)
    assert refused.value.reason == reason


def test_the_limit_counts_bytes_also_of_a_string() -> None:
    assert parse_json('"é"', limit=4) == "é"
    with pytest.raises(MalformedText, match="larger than 3 bytes"):
        parse_json('"é"', limit=3)


def test_nesting_ends_at_its_cap() -> None:
    assert parse_json("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH) != []
    with pytest.raises(MalformedText, match="nested more than 100 levels deep"):
        parse_json('{"a":' * MAX_JSON_DEPTH + "[]" + "}" * MAX_JSON_DEPTH)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], "\ud800", {"\udfff": 1}])
def test_what_no_json_text_can_hold_is_not_written(value: Json) -> None:
    for write in (canonical_json, pretty_json):
        with pytest.raises(MalformedText):
            write(value)


def test_a_value_that_is_nested_without_end_is_not_written() -> None:
    endless: list[Json] = []
    endless.append(endless)
    with pytest.raises(MalformedText, match="or itself"):
        canonical_json(endless)
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MalformedText, match="nested more than 100 levels deep"):
        canonical_json(deep)
