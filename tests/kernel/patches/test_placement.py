"""Where hunks go, and what an agent is told when they go nowhere."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from difflib import unified_diff
from time import process_time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aop.core.errors import PatchDoesNotApply
from aop.core.paths.names import RepoPath
from aop.kernel.config.policy import Placement
from aop.kernel.patches.file_headers import FilePatch
from aop.kernel.patches.hunks import Hunk
from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import Patch, parse_patch, render
from aop.kernel.patches.placement import MAX_PLACES, MAX_SEARCHES, place

SONG = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
MARKER = b"\\ No newline at end of file\n"


def hunks(text: bytes) -> tuple[Hunk, ...]:
    return parse_patch(b"--- a/x\n+++ b/x\n" + text, PatchRules()).files[0].hunks


def headers(text: bytes, content: bytes, mode: Placement = Placement.UNIQUE) -> list[str]:
    return [hunk.header for hunk in place(hunks(text), content, mode=mode)]


def refusal(text: bytes, content: bytes, mode: Placement = Placement.UNIQUE) -> PatchDoesNotApply:
    with pytest.raises(PatchDoesNotApply) as refused:
        place(hunks(text), content, mode=mode, path="src/x")
    return refused.value


@pytest.mark.parametrize("mode", list(Placement))
def test_a_hunk_that_fits_its_line_stays_there_though_others_fit_as_well(mode: Placement) -> None:
    assert headers(b"@@ -3 +3 @@\n-x\n+y\n", b"x\n" * 5, mode) == ["@@ -3,1 +3,1 @@"]


@pytest.mark.parametrize("stated", [1, 2, 5, 6, 999_999_999, 0])
def test_a_hunk_with_a_wrong_line_goes_to_the_only_place_that_fits(stated: int) -> None:
    text = b"@@ -%d,3 +%d,2 @@\n three\n-four\n five\n" % (stated, stated)
    assert headers(text, SONG) == ["@@ -3,3 +3,2 @@"]
    assert refusal(text, SONG, Placement.EXACT).facts == {
        "path": "src/x",
        "hunk": 1,
        "stated_line": stated,
        "candidate_lines": [3],
    }


def test_new_numbers_follow_from_the_hunks_above() -> None:
    text = (
        b"@@ -1 +7,3 @@\n one\n+a\n+b\n@@ -2,2 +9 @@\n-three\n four\n@@ -4 +2,0 @@\n-six\n@@ -7 +1,2 @@\n seven\n+z\n"
    )
    assert headers(text, SONG) == ["@@ -1,1 +1,3 @@", "@@ -3,2 +5,1 @@", "@@ -6,1 +6,0 @@", "@@ -7,1 +7,2 @@"]


def test_several_places_are_refused_with_all_of_them() -> None:
    refused = refusal(b"@@ -2,2 +2,2 @@\n a\n-b\n+c\n", b"a\nb\n-\na\nb\n")
    assert (
        refused.message
        == "Hunk 1 of `src/x` (`@@ -2,2 +2,2 @@`) is not at the line that it states; it fits at line 1, 4."
    )
    assert refused.next_action == "State the right line, or add lines of context until the hunk fits one place only."
    assert refused.facts == {"path": "src/x", "hunk": 1, "stated_line": 2, "candidate_lines": [1, 4]}


def test_very_many_places_are_cut_short() -> None:
    refused = refusal(b"@@ -999 +999 @@\n-b\n+c\n", b"b\n" * 900)
    assert refused.facts["candidate_lines"] == list(range(1, MAX_PLACES + 1))
    assert refused.message.endswith(", 20 and more.")


def test_only_places_behind_the_hunk_above_count() -> None:
    content = b"a\nb\nstop\na\nb\n"
    text = b"@@ -3 +3 @@\n-stop\n+go\n@@ -9,2 +9,2 @@\n a\n-b\n+c\n"
    assert headers(text, content) == ["@@ -3,1 +3,1 @@", "@@ -4,2 +4,2 @@"]
    refused = refusal(b"@@ -3 +3 @@\n-three\n+3\n@@ -9 +9 @@\n-two\n+2\n", SONG)
    assert refused.message == (
        "Hunk 2 of `src/x` (`@@ -9,1 +9,1 @@`) fits no place of the file. "
        "Nearest is line 2: they are the same, but the hunk above already reaches beyond them."
    )


def test_lines_are_compared_as_a_whole() -> None:
    assert headers(b"@@ -9 +9 @@\n-two\n+2\n", b"one two\ntwo one\n twotwo\ntwo\n") == ["@@ -4,1 +4,1 @@"]
    refused = refusal(b"@@ -1 +1 @@\n-two\n+2\n", b"one two\ntwo one\n")
    assert refused.facts["nearest"] == [{"line": 1, "text": "one two"}]


def test_no_place_is_refused_with_what_was_looked_for_and_the_nearest_lines() -> None:
    refused = refusal(b"@@ -1,3 +1,3 @@\n three\n-vier\n+4\n five\n", SONG)
    assert refused.message == (
        "Hunk 1 of `src/x` (`@@ -1,3 +1,3 @@`) fits no place of the file. Nearest is line 3: their text differs."
    )
    assert refused.facts == {
        "path": "src/x",
        "hunk": 1,
        "stated_line": 1,
        "looked_for": ["three", "vier", "five"],
        "nearest": [{"line": 3, "text": "three"}, {"line": 4, "text": "four"}, {"line": 5, "text": "five"}],
    }


@pytest.mark.parametrize(
    ("text", "content", "comparison"),
    [
        (b"@@ -1,2 +1,2 @@\n if x:\n-  y\n+  z\n", b"if x:\n\ty\n", "only white space differs"),
        (b"@@ -1,2 +1 @@\n a\n-b\n", b"a\r\nb\r\n", "only the carriage return at the ends of lines differs"),
        (b"@@ -1,2 +1 @@\n a\r\n-b\r\n", b"a\nb\n", "only the carriage return at the ends of lines differs"),
        (
            b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
            b"a\nb",
            "only the newline at the end of the file (`\\ No newline at end of file`) differs",
        ),
        (
            b"@@ -1,2 +1,2 @@\n a\n-b\n" + MARKER + b"+c\n",
            b"a\nb\n",
            "only the newline at the end of the file (`\\ No newline at end of file`) differs",
        ),
        (
            b"@@ -1 +1 @@\n-a\n+c\n" + MARKER,
            b"a\nb\n",
            "they are the same, but the hunk says that the file ends there",
        ),
    ],
)
def test_the_refusal_says_what_the_difference_is(text: bytes, content: bytes, comparison: str) -> None:
    assert refusal(text, content).message.endswith(f" Nearest is line 1: {comparison}.")


def test_a_refusal_is_json_whatever_the_bytes() -> None:
    refused = refusal(b"@@ -1 +1 @@\n-\xff\xfe\n+c\n", b"\xe9" * 1000 + b"\n")
    assert refused.facts["looked_for"] == ["\\xff\\xfe"]
    assert len(str(refused.facts["nearest"])) < 300
    msgspec.json.encode(refused.as_error())


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        (b"@@ -9,2 +9,2 @@\n a\n-b\n" + MARKER + b"+c\n", b"a\nb\na\nb", "@@ -3,2 +3,2 @@"),
        (b"@@ -9 +9 @@\n-b\n+c\n" + MARKER, b"b\nb\n", "@@ -2,1 +2,1 @@"),
        (b"@@ -9 +9,2 @@\n b\n+c\n" + MARKER, b"b\nb\n", "@@ -2,1 +2,2 @@"),
    ],
)
def test_a_hunk_with_a_marker_ends_with_the_file(text: bytes, content: bytes, expected: str) -> None:
    assert headers(text, content) == [expected]


@pytest.mark.parametrize("mode", Placement)
@pytest.mark.parametrize("at", [0, 3, 7, 8])
def test_an_insertion_without_context_is_refused(at: int, mode: Placement) -> None:
    refused = refusal(b"@@ -%d,0 +1 @@\n+x\n" % at, SONG, mode)
    assert refused.message.endswith("adds lines without a line of context, so nothing shows that this is their place.")
    assert refused.facts == {"path": "src/x", "hunk": 1, "stated_line": at}


def test_an_empty_file_takes_an_insertion_at_its_top() -> None:
    assert headers(b"@@ -0,0 +1,2 @@\n+x\n+y\n", b"") == ["@@ -0,0 +1,2 @@"]
    assert refusal(b"@@ -1 +1 @@\n-x\n+y\n", b"").facts["nearest"] == []


@pytest.mark.unmeasured
def test_time_is_bounded_on_repetitive_files() -> None:
    began = process_time()
    content = b"a\nb\n" * 200_000 + b"a\na\n"
    block = b"-a\n-b\n" * 20_000 + b"-a\n-b\n-b\n"
    assert "nearest" in refusal(b"@@ -7,%d +6,0 @@\n%b" % (block.count(b"\n"), block), content).facts
    assert process_time() - began < 5


def test_the_number_of_searches_is_bounded() -> None:
    text = b"".join(b"@@ -%d +1 @@\n-%d\n+x\n" % (number + 1, number) for number in range(1, MAX_SEARCHES + 2))
    content = b"".join(b"%d\n" % number for number in range(1, MAX_SEARCHES + 2))
    assert refusal(text, content).message == "More than 500 hunks of `src/x` state a wrong line."
    fewer = hunks(text)[:MAX_SEARCHES]
    assert [hunk.old_start for hunk in place(fewer, content, mode=Placement.UNIQUE)] == list(range(1, MAX_SEARCHES + 1))


def applied(content: str, placed: Sequence[Hunk]) -> str:
    """Rebuild the new file from the hunks alone, where each old line must be the one that stands there."""
    old, new, at = content.splitlines(keepends=True), [], 0
    for hunk in placed:
        new += old[at : hunk.begin]
        at = hunk.begin
        assert len(new) + (hunk.new_count > 0) == hunk.new_start
        for line in hunk.lines:
            text = line[1:].decode() + "\n"
            if not line.startswith(b"+"):
                assert old[at] == text
                at += 1
            if not line.startswith(b"-"):
                new.append(text)
    return "".join(new + old[at:])


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str]:
    """Make a file whose lines are all different, and another version of it."""
    old = [f"line {number}\n" for number in range(draw(st.integers(1, 40)))]
    new = list(old)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(st.sampled_from(["new\n", "other\n"]), max_size=3))
    return "".join(old), "".join(new)


@given(versions=edits(), shift=st.integers(0, 50), skew=st.integers(0, 9))
def test_shifted_numbers_lead_to_the_same_result(versions: tuple[str, str], shift: int, skew: int) -> None:
    old, new = versions
    text = "".join(unified_diff(old.splitlines(True), new.splitlines(True), "a/x", "b/x", n=2))
    if not text:
        return
    straight = parse_patch(text.encode(), PatchRules()).files[0].hunks
    shifted = [
        replace(hunk, old_start=hunk.old_start + shift, new_start=hunk.new_start + skew) if hunk.old_count else hunk
        for hunk in straight
    ]
    placed = place(shifted, old.encode(), mode=Placement.UNIQUE)
    assert placed == place(straight, old.encode(), mode=Placement.EXACT)
    assert applied(old, placed) == new


@st.composite
def lopsided_hunks(draw: st.DrawFn) -> tuple[str, list[Hunk]]:
    """Make a file of few different lines, and hunks with as much context on either side as it happens."""
    old = draw(st.lists(st.sampled_from(["a", "b", "}"]), max_size=30))
    made: list[Hunk] = []
    at = 0
    while at < max(1, len(old)) and (not made or draw(st.booleans())):
        at += draw(st.integers(0, min(4, max(0, len(old) - at - 1))))
        taken = old[at : at + draw(st.integers(1, 4))]
        lines = [f"{draw(st.sampled_from('  -'))}{text}" for text in taken]
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["+a", "+n"])))
        made.append(
            Hunk(
                old_start=at + bool(taken),
                old_count=len(taken),
                new_start=0,
                new_count=sum(line[0] != "-" for line in lines),
                lines=tuple(line.encode() for line in lines),
            )
        )
        at += max(1, len(taken))
    return "".join(f"{line}\n" for line in old), made


@settings(max_examples=60)
@given(case=lopsided_hunks())
def test_git_applies_placed_hunks_where_they_were_placed(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, list[Hunk]]
) -> None:
    old, made = case
    placed = place(made, old.encode(), mode=Placement.EXACT)
    file = FilePatch(old_path=RepoPath("x"), new_path=RepoPath("x"), hunks=placed)
    folder = tmp_path_factory.mktemp("placed")
    (folder / "x").write_text(old)
    command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn"]
    subprocess.run(command, cwd=folder, input=render(Patch(files=(file,))), check=True, timeout=300)
    assert (folder / "x").read_text() == applied(old, placed)
