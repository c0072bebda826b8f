"""Paths, areas and plan entries: what they normalise to, what they cover, and what overlaps."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.errors import PathOutOfBounds
from aop.core.paths.names import (
    Area,
    BadPattern,
    Matching,
    PlannedPath,
    canonical_path,
    exact_path,
    fold_path,
    overlap,
    parse_area,
    parse_planned,
)

paths = st.lists(st.text("abAB", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)
texts = st.text() | st.text("ab./\\*? -:~\u200b\u0301ß")


@pytest.mark.req("AOP-129")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/x", "src/x"),
        ("./src/x", "src/x"),
        ("src//x", "src/x"),
        ("src/./x", "src/x"),
        ("src/", "src"),
        ("a", "a"),
    ],
)
def test_the_spellings_of_one_path_become_one(text: str, path: str) -> None:
    assert canonical_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "app/[id]/page.tsx",
        "src/routes/(app)/+page@.svelte",
        "docs/Grüße aus 東京.md",
        ".github/workflows/ci.yml",
        ".gitignore",
        "src/console.py",
        "src/auxiliary/com.py",
        "a" * 255,
        "/".join("a" * 64),
        "notes~",
        "{{name}}/setup.py",
    ],
)
def test_the_names_of_honest_projects_are_fine(text: str) -> None:
    assert exact_path(text) == text


@pytest.mark.req("AOP-130")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/etc/passwd", "it is absolute"),
        ("../x", "`..` leads out of a directory"),
        ("src/../x", "`..` leads out of a directory"),
        ("C:/x", "`:` in a name means a drive or a stream to Windows"),
        ("src\\x", "it has a backslash; `/` separates names"),
        ("", "it is empty"),
        ("./", "it names the root, not a file"),
        ("src/.git/config", "`.git` belongs to git"),
        ("a\nb", "the code point U+000A in it is not visible text"),
        ("a" * 256, "a name in it is longer than 255 bytes"),
        ("ü" * 128, "a name in it is longer than 255 bytes"),
        ("/".join("a" * 65), "it is more than 64 names deep"),
        ("a/" * 2049, "it is longer than 4096 bytes"),
        ("üü/" * 1000, "it is longer than 4096 bytes"),
        ("u\u0308", "it is not in Unicode's normal form C"),
    ],
)
def test_a_path_that_is_none_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(PathOutOfBounds) as refused:
        canonical_path(text)
    assert refused.value.facts["reason"] == reason


def test_a_refusal_shows_the_path_without_what_steers_a_terminal() -> None:
    with pytest.raises(PathOutOfBounds) as refused:
        canonical_path("a\x1b[2J\udcff")
    assert refused.value.facts == {
        "path": "a\\x1b[2J\\udcff",
        "reason": "the code point U+001B in it is not visible text",
    }


@given(texts)
def test_a_path_is_canonical_or_refused_and_the_answer_is_stable(text: str) -> None:
    try:
        path = canonical_path(text)
    except PathOutOfBounds as refused:
        msgspec.json.encode(refused.as_error())
    else:
        assert canonical_path(path) == path
        assert not {"", ".", ".."} & set(path.split("/"))


@given(texts)
def test_an_exact_path_is_what_was_sent(text: str) -> None:
    try:
        path = exact_path(text)
    except PathOutOfBounds:
        return
    assert path == text == canonical_path(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [("README.md", "readme.md"), ("Straße", "STRASSE"), ("ÉTÉ", "été"), ("\u03c2", "\u03a3"), ("ǰ", "J\u030c")],
)
def test_names_that_a_file_system_may_take_for_one_fold_to_one_key(a: str, b: str) -> None:
    assert fold_path(a) == fold_path(b) == fold_path(fold_path(a))


@pytest.mark.req("AOP-132")
@pytest.mark.parametrize("text", ["src", "src/", "src/**", "./src", "src//", "src/**/**"])
def test_a_prefix_covers_its_name_and_what_lies_below(text: str) -> None:
    area = parse_area(text, Matching.REPO_PREFIX)
    assert area == Area("src")
    assert [path for path in ("src", "src/a.py", "src-evil/x", "srcs", "lib/src", "Src/a") if area.covers(path)] == [
        "src",
        "src/a.py",
    ]


@pytest.mark.parametrize("matching", Matching)
@pytest.mark.parametrize("text", [".", "./", "**", "**/**"])
def test_the_root_covers_everything(text: str, matching: Matching) -> None:
    area = parse_area(text, matching)
    assert all(area.covers(path) for path in ("a", "a/b/c", ".env"))


@pytest.mark.req("AOP-118", "AOP-133")
@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("src/*.py", ["src/a.py"]),
        ("src/?.py", ["src/a.py"]),
        ("src/**/a.py", ["src/a.py", "src/x/a.py"]),
        ("**/*.py", ["src/a.py", "src/x/a.py", "src/x/.b.py"]),
        ("src/x", ["src/x/a.py", "src/x/.b.py"]),
        ("src/x/**", ["src/x/a.py", "src/x/.b.py"]),
        ("src/*/*", ["src/x/a.py", "src/x/.b.py"]),
    ],
)
def test_a_glob_covers_what_it_matches_and_a_plain_name_what_lies_below(text: str, covered: list[str]) -> None:
    area = parse_area(text, Matching.GLOB)
    assert [path for path in ("src/a.py", "src/x/a.py", "src/x/.b.py", "src-x/a.c") if area.covers(path)] == covered


@pytest.mark.req("AOP-118")
def test_a_wildcard_needs_glob_matching() -> None:
    with pytest.raises(BadPattern) as bad:
        parse_area("src/*", Matching.REPO_PREFIX)
    assert str(bad.value) == (
        "`src/*` is not a usable pattern: `*` and `?` need `path_rules.matching: glob`; here an area is a plain prefix."
    )


def test_a_prefix_may_have_the_brackets_of_real_names() -> None:
    assert parse_area("app/[id]", Matching.REPO_PREFIX).covers("app/[id]/page.tsx")


def test_gits_own_folder_can_be_named_as_an_area() -> None:
    assert parse_area(".git/**", Matching.GLOB).covers(".GIT/config", fold=True)


@pytest.mark.parametrize("matching", Matching)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            " src",
            "src ",
            "\ufeffsrc",
            "a\tb",
            "a\x00",
            "src\\x",
            "/src",
            "/",
            "..",
            "src/../x",
            "C:/x",
            "src./x",
        ),
        *("e\u0301", "a" * 513, "/".join("a" * 300)),
    ],
)
def test_an_area_that_no_path_could_match_is_an_error_when_it_is_read(text: str, matching: Matching) -> None:
    with pytest.raises(BadPattern):
        parse_area(text, matching)


@pytest.mark.parametrize(
    ("area", "path"),
    [("Src/A", "src/a/x"), ("SRC/*.PY", "src/a.py"), ("Straße/?.py", "STRASSE/x.py"), ("SRC/?.key", "src/ß.key")],
)
def test_folding_covers_what_differs_only_in_case(area: str, path: str) -> None:
    parsed = parse_area(area, Matching.GLOB)
    assert (parsed.covers(path), parsed.covers(path, fold=True)) == (False, True)


@given(paths, paths)
def test_a_prefix_covers_exactly_what_has_its_components_first(area: str, path: str) -> None:
    parts = area.split("/")
    assert Area(area).covers(path) == (path.split("/")[: len(parts)] == parts)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("./src//a.py", "src/a.py"),
        ("src/", "src/"),
        ("./src/./", "src/"),
        ("src/**/**/*.py", "src/**/*.py"),
        ("src/*/", "src/*/**"),
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
    ],
)
def test_an_entry_of_a_plan_is_normalised(text: str, entry: str) -> None:
    assert parse_planned(text) == PlannedPath(entry) == parse_planned(entry)


@pytest.mark.parametrize("text", ["src/{a,b}.py", "src/{a", "a}", "src/**.py", "?" * 17, "a/" * 256 + "*"])
def test_a_plan_may_not_hold_a_pattern_that_is_not_understood(text: str) -> None:
    with pytest.raises((BadPattern, PathOutOfBounds)):
        parse_planned(text)


def test_braces_are_refused_with_what_to_write_in_their_place() -> None:
    with pytest.raises(BadPattern, match="list the paths one by one"):
        parse_planned("src/{a,b}.py")


@pytest.mark.req("AOP-130")
@pytest.mark.parametrize("text", ["../*.py", "/src/*", ".git/*", "src/../*", ".git/hooks/pre-commit", "../../x"])
def test_a_plan_may_not_name_what_lies_outside_or_belongs_to_git(text: str) -> None:
    with pytest.raises(PathOutOfBounds):
        parse_planned(text)


@pytest.mark.parametrize(
    ("entry", "covered"),
    [("src", ["src"]), ("src/", ["src/a.py", "src/b/c.py"]), ("src/*", ["src/a.py"]), ("src/**/c.py", ["src/b/c.py"])],
)
def test_an_entry_covers_strictly_what_it_says(entry: str, covered: list[str]) -> None:
    planned = parse_planned(entry)
    assert [path for path in ("src", "src/a.py", "src/b/c.py", "Src", "src2/x") if planned.covers(path)] == covered


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Src/A.py", ("Src/A.py", "src/a.py", False, False)),
        ("src/b/", ("src/b", "src/b/", False, True)),
        ("src/b/x*/y", ("src/b", "src/b/x*/y", True, True)),
        ("**/*.py", ("", "**/*.py", True, True)),
    ],
)
def test_an_entry_knows_its_stem_its_key_and_its_kind(text: str, facts: tuple[str, str, bool, bool]) -> None:
    entry = parse_planned(text)
    assert (entry.stem, entry.fold, entry.is_glob, entry.is_pattern) == facts


@given(paths, paths)
def test_a_plain_entry_covers_itself_alone(entry: str, path: str) -> None:
    assert parse_planned(entry).covers(path) == (entry == path)


@pytest.mark.req("AOP-204")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src/x", "src/x"),
        ("./src/x", "src//x"),
        ("src/X", "SRC/x"),
        ("src/", "src/x"),
        ("src/", "src"),
        ("src/", "src/b/"),
        ("src", "src/x"),
        ("src", "src/*.py"),
        ("src", "src/a/"),
        ("src/*/a.py", "src/b/*.py"),
        ("src/*.py", "src/a*"),
        ("**/*.py", "docs/**"),
        ("**/*.py", "docs/"),
        ("src/*.py", "src/a.py"),
        ("SRC/*.py", "src/A.PY"),
        ("SRC/?.py", "src/ß.py"),
        ("Straße", "strasse/x"),
        ("**/a/**", "**/b/**"),
        ("src/?.py", "src/[.py"),
    ],
)
def test_entries_that_can_mean_one_file_overlap(a: str, b: str) -> None:
    first, second = parse_planned(a), parse_planned(b)
    assert overlap(first, second)
    assert overlap(second, first)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src/x", "src/y"),
        ("src", "src-evil/x"),
        ("src/", "src2/x"),
        ("src/*.py", "src/*.md"),
        ("a*b", "*c"),
        ("LICENSE", "**/*.py"),
        ("docs/readme", "**/*.md"),
        ("src/*.py", "src/b/*.py"),
        ("src/*", "src/*/x.py"),
        ("app/[id]/page.tsx", "app/i/page.tsx"),
        ("src/?.py", "src/ab.py"),
    ],
)
def test_entries_that_share_no_file_do_not_overlap(a: str, b: str) -> None:
    first, second = parse_planned(a), parse_planned(b)
    assert not overlap(first, second)
    assert not overlap(second, first)


@given(paths, paths)
def test_plain_files_overlap_exactly_if_they_are_one_or_one_is_above_the_other(a: str, b: str) -> None:
    first, second = fold_path(a).split("/"), fold_path(b).split("/")
    shorter = min(len(first), len(second))
    assert overlap(parse_planned(a), parse_planned(b)) == (first[:shorter] == second[:shorter])


@pytest.mark.parametrize(
    ("area", "entry", "touches"),
    [
        ("infra", "infra/main.tf", True),
        ("infra", "Infra/main.tf", True),
        ("infra", "infra2/main.tf", False),
        ("infra", "**/*.tf", True),
        ("infra/prod", "infra/", True),
        ("infra/prod", "infra", True),
        ("infra/prod", "infra/dev/x", False),
        ("**/*.md", "docs/readme", False),
        ("**/*.md", "docs/", True),
        ("src/*.py", "src/*.md", False),
        ("**", "anything", True),
    ],
)
def test_an_area_is_touched_by_every_entry_that_can_mean_a_file_in_it(area: str, entry: str, *, touches: bool) -> None:
    assert overlap(parse_area(area, Matching.GLOB), parse_planned(entry)) is touches
