"""Hostile names: feature ids, file names, and the patterns of areas."""

from __future__ import annotations

from time import process_time

import msgspec
import pytest

from aop.core.errors import InvalidFeatureSlug, PathOutOfBounds
from aop.core.ids import feature_id
from aop.core.paths.names import Area, BadPattern, Matching, canonical_path, exact_path, parse_area

IDS = [
    ("N01", "--upload-pack=touch x"),
    ("N02", "-x"),
    ("N02", "-D"),
    ("N03", "a..b"),
    ("N05", "@"),
    ("N06", "HEAD"),
    ("N06", "head"),
    ("N06", "FETCH_HEAD"),
    ("N06", "fetch_head"),
    ("N06", "cherry_pick_head"),
    ("N06", "stash"),
    ("N06", "main"),
    ("N06", "MAIN"),
    ("N06", "aux"),
    ("N06", "com1"),
    ("N07", "refs/heads/x"),
    *(("N09", f"a{character}b") for character in " ~^:?*[\\\t\n\x7f\x00"),
    ("N09", "a\n"),
    ("N09", ""),
    ("N10", "feature/;rm -rf"),
    ("N10", "$(id)"),
    ("N10", "`id`"),
    ("N11", "a\u202eb"),
    ("N11", "a\u200bb"),
    ("N11", "e\u0301"),
    ("N11", "\u0430dmin"),
    ("N11", "\u0661"),
    ("N11", "a\udcff"),
    ("N13", "../../etc"),
    ("N13", ".."),
    ("N13", "/etc"),
    ("N14", "Foo-1"),
    ("N15", "a/b"),
    ("N01", "a" * 64),
]


@pytest.mark.parametrize(("row", "text"), IDS)
def test_no_feature_gets_an_id_that_git_or_a_shell_or_a_file_system_reads_otherwise(row: str, text: str) -> None:
    with pytest.raises(InvalidFeatureSlug) as refused:
        feature_id(text)
    assert msgspec.json.encode(refused.value.as_error()).isascii()


@pytest.mark.parametrize("text", ["a", "foo-1", "_x", "0", "a" * 63, "page_head"])
def test_an_honest_feature_id_is_itself(text: str) -> None:
    assert feature_id(text) == text


# What the name of a file may be, once a diff's quotes are undone.
NAMES = [
    ("D001", "/abs"),
    ("D003", "../outside"),
    ("D005", "src/../../outside"),
    ("D006", "src/../protected.txt"),
    ("D007", "./protected.txt"),
    ("D007", "src/./x"),
    ("D007", "src//x"),
    ("D009", "newdir/"),
    ("D010", "..\\outside\\p"),
    ("D010", "src\\x"),
    ("D011", "C:/x"),
    ("D011", "c:x"),
    ("D013", "\056\056/x"),
    ("D014", "\056git/hooks/post-checkout"),
    ("D015", ""),
    ("D017", "/".join(["a" * 9] * 500)),
    ("D017", "a" * 5000),
    ("D041", ".GIT/hooks/x"),
    ("D041", "src/.Git/x"),
    ("D041", ".git"),
    ("D042", "git~1/hooks/x"),
    ("D042", "GIT~2"),
    ("D042", "protec~1.txt"),
    ("D043", ".git./x"),
    ("D043", ".git /x"),
    ("D043", ".git . ./x"),
    ("D045", ".git::$INDEX_ALLOCATION/x"),
    ("D045", ".git:x"),
    ("D045", "a.txt:stream"),
    ("D046", ".g\u200cit/hooks/x"),
    ("D047", "\ufeff.git/x"),
    ("D047", ".git\u206f/x"),
    ("D047", "\uff0e\uff47\uff49\uff54/x"),
    ("D135", "a\nb"),
    ("D135", "a\rb"),
    ("D135", "a\u2028b"),
    ("D135", "a\x00b"),
    ("D136", "a\x1b[2Jb"),
    ("D136", "a\x9bb"),
    ("D136", "a\x7fb"),
    ("D137", "-rf"),
    ("D137", "src/--output=x"),
    ("D139", "*.txt"),
    ("D139", "src/?.txt"),
    ("D141", "CON"),
    ("D141", "src/aux.txt"),
    ("D141", "nul .tar.gz"),
    ("D141", "COM1"),
    ("D141", "com\u00b9.log"),
    ("D141", "conin$"),
    ("D141", "a."),
    ("D141", "src /a"),
    ("D144", "a\u202egpj.py"),
    ("D144", "a\u2066b"),
    ("D144", "a\u00adb"),
    ("D144", "a\u3164b"),
    ("D144", "a\ufe0fb"),
    ("D144", "e\u0301"),
    ("D144", "a\uf03ab"),
    ("D145", b"\377".decode(errors="surrogateescape")),
    ("D145", "\ud800"),
]

# A plan may say `./x`, `dir/` and `*.txt`.
SPELLED_OTHERWISE_IN_PLANS = {"D007", "D009", "D139"}


@pytest.mark.parametrize(("row", "name"), NAMES)
def test_no_file_gets_a_name_that_means_another_file_or_steers_whoever_reads_it(row: str, name: str) -> None:
    with pytest.raises(PathOutOfBounds) as refused:
        exact_path(name)
    assert str(refused.value.facts["path"]).isprintable()
    assert refused.value.message.isprintable()
    msgspec.json.encode(refused.value.as_error())


@pytest.mark.parametrize(("row", "name"), [(row, name) for row, name in NAMES if row not in SPELLED_OTHERWISE_IN_PLANS])
def test_a_plan_cannot_name_such_a_file_either(row: str, name: str) -> None:
    with pytest.raises(PathOutOfBounds):
        canonical_path(name)


@pytest.mark.hostile("P01")
@pytest.mark.parametrize("matching", Matching)
def test_an_area_ends_at_the_end_of_a_name(matching: Matching) -> None:
    area = parse_area("src/**", matching)
    assert (area.covers("src/x"), area.covers("src-evil/x")) == (True, False)


@pytest.mark.hostile("P09")
def test_a_guarded_area_is_guarded_in_every_case() -> None:
    assert Area("Src/A").covers("src/a", fold=True)


@pytest.mark.unmeasured
@pytest.mark.hostile("P10")
def test_a_pattern_full_of_gaps_is_matched_in_time() -> None:
    area = parse_area("**/**/**/**/*x", Matching.GLOB)
    paths = [f"src/package_{n % 97}/module_{n % 13}/part/file_{n}.py" for n in range(10_000)]
    start = process_time()
    covered = [path for path in paths if area.covers(path)]
    assert (covered, process_time() - start < 0.1) == ([], True)


PATTERNS = [
    ("P11", "src/[ab].py"),
    ("P11", "src/a]"),
    ("P11", "src/{a,b}.py"),
    ("P11", "!src/**"),
    ("P11", "src/*!"),
    ("P11", "src/** "),
    ("P11", " src/**"),
    ("P11", "\ufeffsrc/**"),
    ("P11", "src/\x00*"),
    ("P11", "src\\**"),
    ("P11", "src/**.py"),
    ("P11", "../**"),
    ("P11", "/src/**"),
    ("P11", ""),
]


@pytest.mark.parametrize(("row", "pattern"), PATTERNS)
def test_a_glob_that_would_silently_match_nothing_is_an_error_when_it_is_read(row: str, pattern: str) -> None:
    with pytest.raises(BadPattern):
        parse_area(pattern, Matching.GLOB)
