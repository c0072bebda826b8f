"""Globs: the matcher against a slow, obvious one; intersection against brute force."""

from __future__ import annotations

from itertools import product
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.paths import globs

NAMES = ("a", "b", "aa", "ab", "ba", "bb")
PATHS = tuple("/".join(names) for depth in (1, 2, 3, 4) for names in product(NAMES, repeat=depth))
LONG_NAMES = tuple("".join(letters) for length in range(1, 9) for letters in product("ab", repeat=length))

# Two names a pattern at most, so that the shortest path in any intersection is one of PATHS.
name_patterns = st.sampled_from(["a", "b", "?", "*", "a*", "*b", "?b", "a?", "*a"])
patterns = st.lists(name_patterns, min_size=1, max_size=2).flatmap(
    lambda names: st.lists(st.booleans(), min_size=len(names) + 1, max_size=len(names) + 1).map(
        lambda gaps: "/".join(
            part
            for name, gap in zip([*names, ""], gaps, strict=True)
            for part in ([globs.GAP] if gap else []) + [name]
            if part
        )
    )
)
# Likewise: four characters at most against names of up to eight.
long_name_patterns = (
    st.text("ab?*", min_size=1, max_size=4).map(lambda text: text.replace("**", "*")).filter(lambda t: "**" not in t)
)


def slowly_matches(pattern: list[str], path: list[str]) -> bool:
    if not pattern or not path:
        return not path and all(part == globs.GAP for part in pattern)
    if pattern[0] == globs.GAP:
        return slowly_matches(pattern[1:], path) or slowly_matches(pattern, path[1:])
    return slowly_fits(pattern[0], path[0]) and slowly_matches(pattern[1:], path[1:])


def slowly_fits(pattern: str, name: str) -> bool:
    if not pattern or not name:
        return not name and not pattern.strip("*")
    if pattern[0] == "*":
        return slowly_fits(pattern[1:], name) or slowly_fits(pattern, name[1:])
    return pattern[0] in ("?", name[0]) and slowly_fits(pattern[1:], name[1:])


@pytest.mark.req("AOP-133")
@given(patterns, st.sampled_from(PATHS))
def test_a_path_matches_as_the_definition_says(pattern: str, path: str) -> None:
    assert globs.matches(pattern, path) == slowly_matches(pattern.split("/"), path.split("/"))


@given(st.text("ab?*", min_size=1, max_size=9).filter(lambda text: "**" not in text), st.sampled_from(LONG_NAMES))
def test_a_name_matches_as_the_definition_says(pattern: str, name: str) -> None:
    assert globs.matches(pattern, name) == slowly_fits(pattern, name)


@given(patterns, patterns)
def test_two_patterns_meet_exactly_if_some_path_matches_both(a: str, b: str) -> None:
    assert globs.meet(a, b) == any(globs.matches(a, path) and globs.matches(b, path) for path in PATHS)


@given(long_name_patterns, long_name_patterns)
def test_two_patterns_of_names_meet_exactly_if_some_name_matches_both(a: str, b: str) -> None:
    assert globs.meet(a, b) == any(globs.matches(a, name) and globs.matches(b, name) for name in LONG_NAMES)


@given(patterns, st.sampled_from(PATHS))
def test_a_pattern_meets_a_plain_path_exactly_if_it_matches_it(pattern: str, path: str) -> None:
    assert globs.meet(pattern, path) == globs.meet(path, pattern) == globs.matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "matched"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/*.py", "src/.py", True),
        ("src/*", "src/.env", True),
        ("src/?.py", "src/a.py", True),
        ("src/?.py", "src/.py", False),
        ("src/?.py", "src/ab.py", False),
        ("src/?x", "src//x", False),
        ("src/**", "src", True),
        ("src/**", "src/a/b/c", True),
        ("src/**", "src-evil/x", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("**/x/**/y", "x/y", True),
        ("**/x/**/y", "a/x/b/c/y", True),
        ("**/x/**/y", "a/b/y", False),
        ("**/a/b/**/a/c", "a/a/b/a/a/c", True),
        ("app/[id]/*.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/*.tsx", "app/i/page.tsx", False),
        ("a.c", "abc", False),
        ("*a*b", "xaxab", True),
        ("a+(b)$^|*", "a+(b)$^|", True),
    ],
)
def test_a_pattern_matches_these_paths_and_no_others(pattern: str, path: str, *, matched: bool) -> None:
    assert globs.matches(pattern, path) is matched


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 16, "a" * 254 + "b"),
        ("**/" + "*a" * 15, "/".join(["a" * 254] * 16) + "b"),
        ("**/a/" * 15 + "b", "/".join("a" * 64)),
        ("**/*" + "a" * 120 + "b*c", "/".join(["a" * 250] * 16)),
    ],
)
def test_no_pattern_makes_matching_slow(pattern: str, path: str) -> None:
    start = process_time()
    for _ in range(20):
        assert not globs.matches(pattern, path)
    assert process_time() - start < 0.2


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("*" + "a" * 250, "a" * 250 + "*b"),
        ("**/" + "*?" * 7 + "a" * 230, "**/" + "?*" * 7 + "b" * 230),
        ("**/a/" * 15 + "b", "**/b/" * 15 + "a"),
    ],
)
def test_no_pair_of_patterns_makes_intersection_slow(a: str, b: str) -> None:
    start = process_time()
    assert not globs.meet(a, b)
    assert process_time() - start < 1


@pytest.mark.parametrize(
    ("pattern", "flaw"),
    [
        ("src/**/x", None),
        ("?" * 16, None),
        ("?" * 17, "it has more than 16 wildcards"),
        ("**/a/" * 16 + "*", "it has more than 16 wildcards"),
        ("a" * 512, None),
        ("a" * 513, "it is longer than 512 characters"),
        ("src/**.py", "`**` must be a whole component, as in `src/**/x`"),
        ("***", "`**` must be a whole component, as in `src/**/x`"),
    ],
)
def test_a_pattern_is_bounded_and_its_gaps_are_whole_components(pattern: str, flaw: str | None) -> None:
    assert globs.flaw_in(pattern.split("/")) == flaw


def test_a_run_of_gaps_is_one_gap() -> None:
    assert globs.collapse_gaps(["**", "**", "a", "**", "**", "**", "b"]) == ("**", "a", "**", "b")
