"""Front matter: the first block between two lines of `---`, split and joined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.text.front_matter import join_front_matter, split_front_matter
from aop.core.text.json import MalformedText
from aop.core.text.yaml import parse_yaml


@given(st.dictionaries(st.text("abc", min_size=1), st.text() | st.integers(0, 9), min_size=1), st.text())
def test_what_is_joined_is_taken_apart_again(front: dict[str, str | int], body: str) -> None:
    yaml, rest = split_front_matter(join_front_matter(front, body).encode())
    assert (parse_yaml(yaml).value, rest) == (front, body)


def test_the_block_is_written_before_the_body() -> None:
    assert join_front_matter({"version": 1}, "# Title\n") == "---\nversion: 1\n---\n# Title\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"---\na: 1\n---\nbody\n", (b"a: 1\n", "body\n")),
        (b"---\na: 1\n---\n", (b"a: 1\n", "")),
        (b"---\na: 1\n---", (b"a: 1\n", "")),
        (b"---\n---\n", (b"", "")),
        (b"---\na: 1\n---\n\n---\nb: 2\n---\n", (b"a: 1\n", "\n---\nb: 2\n---\n")),
        (b"---\na: 1\n----\n --- \n---\nx", (b"a: 1\n----\n --- \n", "x")),
        (b"---\na: 1\n---\ncr\r\nlf\r\n", (b"a: 1\n", "cr\r\nlf\r\n")),
        ("---\na: x\u2028---\n---\nx".encode(), ("a: x\u2028---\n".encode(), "x")),
    ],
)
def test_the_first_block_ends_at_the_first_line_that_is_exactly_the_delimiter(
    text: bytes, parts: tuple[bytes, str]
) -> None:
    assert split_front_matter(text) == parts


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"", 1, "its first line is not exactly `---`"),
        (b"# Title\n", 1, "its first line is not exactly `---`"),
        (b"\n---\na: 1\n---\n", 1, "its first line is not exactly `---`"),
        (b"--- \na: 1\n---\n", 1, "its first line is not exactly `---`"),
        (b"---\r\na: 1\r\n---\r\n", 1, "its first line is not exactly `---`"),
        (b"---\na: 1\r\n---\n", 2, "its lines end with CR LF"),
        (b"\xef\xbb\xbf---\na: 1\n---\n", None, "it begins with a byte order mark"),
        (b"---\na: 1\n--- \n", 1, "its front matter does not end with a line that is exactly `---`"),
        (b"---\na: \xff\n---\n", 2, "it is not UTF-8"),
    ],
)
def test_anything_else_is_no_front_matter(text: bytes, line: int | None, reason: str) -> None:
    with pytest.raises(MalformedText) as refused:
        split_front_matter(text)
    assert (refused.value.line, refused.value.reason) == (line, reason)


def test_a_body_that_no_file_can_hold_is_not_joined() -> None:
    with pytest.raises(MalformedText):
        join_front_matter({}, "\ud800")
