"""YAML is read as plain data with lines, and what is written reads back as the same value."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.errors import Json
from aop.core.text.json import MalformedText
from aop.core.text.key_paths import MAX_YAML_DEPTH
from aop.core.text.yaml import dump_yaml, parse_yaml

TRICKY = st.sampled_from(
    [
        *"~-#'\"\\|>%@`?=!&*\t\r\x00\x7f\x85\u2028\ufeff\uffffé😀",
        *"no On NULL 1 -0 1.5 1.0e5 0x10 1_000 2026-01-01 12:30 #a a# &a *a !t {} [] --- ... << key: :a".split(),
        *["", " ", "- a", "a: b", "a #b", "a\nb", "a\n", "\na"],
    ]
)
KEYS = (TRICKY | st.text(max_size=20)).filter(lambda key: key not in ("", "<<"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | TRICKY,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=25,
)


@given(VALUES)
def test_what_is_written_is_read_back_as_the_same_value(value: Json) -> None:
    read = parse_yaml(dump_yaml(value).encode()).value
    assert (read, types(read)) == (value, types(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("0.5", 0.5),
        ("-1.0e-7", -1e-7),
        ("True", "True"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Null", "Null"),
        ("+1", "+1"),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("1.", "1."),
        (".5", ".5"),
        ("1e3", "1e3"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("1.0.0", "1.0.0"),
        ("'1'", "1"),
        ('"true"', "true"),
        ('""', ""),
        ("|\n    1\n", "1\n"),
    ],
)
def test_a_plain_scalar_is_a_word_a_decimal_number_or_a_string(text: str, value: object) -> None:
    read = parse_yaml(f"key: {text}\n".encode()).value
    assert (read, types(read)) == ({"key": value}, types({"key": value}))


def test_keys_are_strings_as_they_are_written() -> None:
    assert parse_yaml(b"1: a\nno: b\n~: c\n1.50: d\n").value == {"1": "a", "no": "b", "~": "c", "1.50": "d"}


def test_each_key_and_item_knows_its_line() -> None:
    text = parse_yaml(b"# a comment\na: 1\nb:\n  - x\n  -\n    c: {d: 1,\n        e: 2}\n")
    assert text.value == {"a": 1, "b": ["x", {"c": {"d": 1, "e": 2}}]}
    lines = {("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 1): 6, ("b", 1, "c"): 6, ("b", 1, "c", "e"): 7}
    assert {path: text.line_of(path) for path in lines} == lines


def test_a_path_that_is_absent_has_the_line_of_what_is_above_it() -> None:
    text = parse_yaml(b"\n\na:\n  b: 1\n")
    assert [text.line_of(path) for path in [("a", "b", "c"), ("a", 7), ("z",), ()]] == [4, 3, 1, 1]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"a: 1\nb: &x 1\n", 2, "it uses an anchor or an alias"),
        (b"a: &x [1]\nb: *x\n", 1, "it uses an anchor or an alias"),
        (b"&k a: 1\n", 1, "it uses an anchor or an alias"),
        (b"a: !t 1\n", 1, "it uses a tag"),
        (b"a: !!str 1\n", 1, "it uses a tag"),
        (b"a: ! 1\n", 1, "it uses a tag"),
        (b"a: 1\n<<: {b: 2}\n", 2, "it has the key '<<'"),
        (b"a: {'': 1}\n", 1, "it has the key ''"),
        (b"a: 1\nb: 2\na: 3\n", 3, "it has the key 'a' twice"),
        (b"'a': 1\na: 3\n", 2, "it has the key 'a' twice"),
        (b"? [a]\n: 1\n", 1, "it has a key that is not a word"),
        (b"a: 1\n---\nb: 2\n", 2, "it holds several documents"),
        (b"a: 1\n...\n---\nb: 2\n", 3, "it holds several documents"),
        (b"a: 1\nb: \x07\n", 2, "it holds the control character U+0007"),
        (b"a: 1\rb: 2\n", 1, "it holds the control character U+000D"),
        ("a: 1\u2028b: 2\n".encode(), 1, "it holds the control character U+2028"),
        (b"a: 1\nb: \xff\n", 2, "it is not UTF-8"),
        (b"a: [1\n", 2, "it is not YAML: "),
        (b"a:\n\tb: 1\n", 2, "it is not YAML: "),
        (b"a: 1\nb: 99999999999999999999\n", 2, "it holds an integer of more than 64 bits"),
        (b"a: 1.0e999\n", 1, "it holds a number that is not finite"),
    ],
)
def test_what_is_more_than_data_is_refused_with_its_line(text: bytes, line: int, reason: str) -> None:
    with pytest.raises(MalformedText) as refused:
        parse_yaml(text)
    assert (refused.value.line, refused.value.reason[: len(reason)]) == (line, reason)


def test_lines_may_end_with_cr_lf() -> None:
    text = parse_yaml(b"a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 2\r\n")
    assert (text.value, text.line_of(("c",))) == ({"a": 1, "b": "x\ny\n", "c": 2}, 5)


def test_a_document_may_begin_with_its_marker() -> None:
    assert parse_yaml(b"---\na: 1\n").value == {"a": 1}


def test_nesting_ends_at_its_cap_when_reading_and_when_writing() -> None:
    deepest: Json = []
    for _ in range(MAX_YAML_DEPTH - 1):
        deepest = {"a": deepest}
    assert parse_yaml(dump_yaml(deepest).encode()).value == deepest
    with pytest.raises(MalformedText, match="nested more than 40 levels deep"):
        dump_yaml([deepest])
    with pytest.raises(MalformedText, match="nested more than 40 levels deep"):
        parse_yaml(b"[" * (MAX_YAML_DEPTH + 1) + b"]" * (MAX_YAML_DEPTH + 1))


def test_the_block_form_is_what_a_person_would_write() -> None:
    value: Json = {
        "feature_id": "orders",
        "version": 3,
        "gates": {"fast": "pass", "full": "na"},
        "locks": {"held": []},
        "items": [{"path": "src/a.py", "lines": [1, 2]}, ["x"], {}],
        "reason": "no: it is 'late'",
        "flag": "yes",
        "share": 0.9,
        "tiny": 1e-9,
        "none": None,
    }
    assert dump_yaml(value) == (
        "feature_id: orders\n"
        "version: 3\n"
        "gates:\n"
        "  fast: pass\n"
        "  full: na\n"
        "locks:\n"
        "  held: []\n"
        "items:\n"
        "  - path: src/a.py\n"
        "    lines:\n"
        "      - 1\n"
        "      - 2\n"
        "  - - x\n"
        "  - {}\n"
        "reason: \"no: it is 'late'\"\n"
        'flag: "yes"\n'
        "share: 0.9\n"
        "tiny: 1.0e-09\n"
        "none: null\n"
    )


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, float("nan"), 2**63, {"k" * 2000: 1}])
def test_what_cannot_be_read_back_is_not_written(value: Json) -> None:
    with pytest.raises(MalformedText):
        dump_yaml(value)


def test_pyyaml_is_imported_only_when_there_is_yaml_to_read() -> None:
    program = "import sys, aop.kernel.config.in_force, aop.core.text.front_matter; print('yaml' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert printed.stdout == "False\n"


def types(value: object) -> object:
    """Return the types in place of the values, for `1 == True == 1.0`."""
    if isinstance(value, dict):
        return {key: types(member) for key, member in value.items()}
    return [types(item) for item in value] if isinstance(value, list) else type(value)
