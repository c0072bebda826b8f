"""Group D through the real door: what `repo.apply_patch` refuses changes nothing anywhere, and what it takes is so."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.hostile.arena import PERMISSIVE, Arena
from tests.hostile.test_diff_text import (
    ACCEPTED,
    ADDED,
    HUNK,
    MARKER,
    REFUSED,
    TEXT,
    UNSWITCHED,
    binary,
    create,
    delete,
    edit,
    git_edit,
    link,
    move,
    quoted,
)
from tests.hostile.test_secrets import PLANTED
from tests.world import git

Row = tuple[str, bytes, str]

NAME = "path_out_of_bounds"
GUARDED = "protected_path"
PLACE = "patch_does_not_apply"

SWITCHES = ("allow_copy", "allow_binary", "allow_symlinks", "allow_quoted_names")


def refused(arena: Arena, diff: bytes) -> Mapping[str, Any]:
    """Send a patch that must be refused and change nothing, neither in the repository nor outside."""
    text = diff.decode("utf-8", "surrogateescape")
    return arena.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=text)


def accepted(arena: Arena, diff: bytes) -> Any:
    """Send a patch that must be taken; return the whole answer."""
    outside = {path.name: path.read_bytes() for path in arena.outside.iterdir()}
    text = diff.decode()
    answer = arena.call("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=text)
    assert answer.ok, answer.error
    assert {path.name: path.read_bytes() for path in arena.outside.iterdir()} == outside
    return answer


def rows_of(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("row", "diff", "code"), rows, ids=[row for row, *_ in rows])


@pytest.mark.series(12)
@pytest.mark.req("AOP-130", "AOP-176")
@rows_of(REFUSED)
def test_a_text_that_gives_itself_away_changes_nothing(arena: Arena, row: str, diff: bytes, code: str) -> None:
    # What is empty, or no UTF-8, does not even get as far as the parser.
    expected = code if diff and diff.decode(errors="ignore").encode() == diff else "invalid_arguments"
    assert refused(arena, diff)["code"] == expected


def written(path: bytes, *lines: bytes) -> bytes:
    """Return the creation of a file with these lines."""
    return create(path, hunk=b"@@ -0,0 +1,%d @@\n" % len(lines) + b"".join(b"+" + line + b"\n" for line in lines))


def appended(path: bytes, line: bytes, *, after: bytes) -> bytes:
    return edit(path).replace(HUNK, b"@@ -1 +1,2 @@\n %b\n+%b\n" % (after, line))


NOT_THERE = edit(b"src/b.txt").replace(b"-x", b"-nothing like it")

TREE: list[Row] = [
    ("D019", b"--- a/protected.txt\n+++ b/protected.txt\n" + HUNK, GUARDED),
    ("D037", move(b"rename", b"protected.txt", b"src/p.txt"), GUARDED),
    ("D037", move(b"rename", b"src/a.txt", b"protected.txt"), GUARDED),
    ("D038", move(b"rename", b"src/a.txt", b"src/b.txt"), PLACE),
    ("D038", move(b"rename", b"src/a.txt", b"tracked_in"), PLACE),
    ("D038", move(b"rename", b"src/a.txt", b"x/a.txt"), PLACE),
    ("D049", b"".join(create(b"vendor/%b" % name) for name in (b"HEAD", b"config", b"objects/x", b"refs/x")), GUARDED),
    ("D049", b"".join(create(b"vendor/%b" % name) for name in (b"head", b"OBJECTS/x", b"Refs/heads/x")), GUARDED),
    ("D049", create(b"vendor/HEAD") + create(b"vendor/commondir"), GUARDED),
    ("D053", written(b".gitmodules", b'[submodule "s"]', b"path = s", b"url = --upload-pack=touch x"), GUARDED),
    ("D053", written(b"src/.gitmodules", b'[submodule "s"]', b"path = s", b"url = ext::sh -c x"), GUARDED),
    ("D053", create(b".GitModules"), GUARDED),
    ("D055", written(b".gitattributes", b"* filter=evil"), GUARDED),
    ("D055", written(b"src/.gitattributes", b"* filter=evil diff=evil merge=evil"), GUARDED),
    ("D057", written(b".gitattributes", b"*.txt working-tree-encoding=UTF-16 eol=crlf"), GUARDED),
    ("D057", move(b"rename", b"src/a.txt", b"src/.gitattributes"), GUARDED),
    ("D058", appended(b".gitignore", b"*", after=b".env") + create(b"new.txt"), GUARDED),
    ("D058", written(b"src/.gitignore", b"*") + create(b"src/new.txt"), GUARDED),
    ("D059", appended(b".gitignore", b"!.env", after=b".env"), GUARDED),
    ("D059", delete(b".gitignore", hunk=b"@@ -1 +0,0 @@\n-.env\n"), GUARDED),
    ("D074", create(b"tracked_out/new.txt"), PLACE),
    ("D074", edit(b"tracked_out/secret.txt"), PLACE),
    ("D074", move(b"rename", b"tracked_out/secret.txt", b"src/c.txt"), PLACE),
    ("D074", delete(b"tracked_out/secret.txt"), PLACE),
    ("D075", create(b"tracked_in/new.txt"), PLACE),
    ("D075", edit(b"tracked_in/a.txt"), PLACE),
    ("D078", move(b"rename", b"tracked_in", b"src/c"), TEXT),
    ("D078", edit(b"tracked_in").replace(HUNK, b"@@ -1 +1 @@\n-src\n%b+../outside\n%b" % (MARKER, MARKER)), TEXT),
    ("D079", delete(b"tracked_in", hunk=b"@@ -1 +0,0 @@\n-src\n" + MARKER), PLACE),
    ("D080", b"diff --git a/tracked_in b/tracked_in\nold mode 100644\nnew mode 100755\n", PLACE),
    ("D084", NOT_THERE, PLACE),
    ("D084", edit(b"src/a.txt") + NOT_THERE, PLACE),
    ("D084", link(b"src/a.txt.rej", b"../../../outside/canary.txt") + NOT_THERE, TEXT),
    ("D086", create(b"src"), PLACE),
    ("D109", b"--- /dev/null\n+++ b/src/a.txt\n" + ADDED, PLACE),
    ("D109", create(b"src/a.txt"), PLACE),
    ("D109", b"--- /dev/null\n+++ b/tracked_in\n" + ADDED, PLACE),
    ("D111", delete(b"two.txt"), PLACE),
    ("D111", b"diff --git a/two.txt b/two.txt\ndeleted file mode 100644\n", PLACE),
    ("D140", create(b"readme.md"), NAME),
    ("D140", create(b"SRC/new.txt"), NAME),
    ("D140", move(b"rename", b"x", b"src/A.txt"), NAME),
    ("D143", create(b"src/a.txt/b"), PLACE),
    ("D150", edit(b"crlf.txt"), PLACE),
]


@pytest.mark.series(12)
@rows_of(TREE)
def test_what_only_the_tree_gives_away_changes_nothing(arena: Arena, row: str, diff: bytes, code: str) -> None:
    assert refused(arena, diff)["code"] == code


def packed(path: bytes, content: bytes) -> bytes:
    """Return the creation of a file as bytes, with the blob id that they really have."""
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return binary(path, content, len(content)).replace(b"1" * 40, oid.encode())


PICTURE = b"\x89PNG\0\x01\x02"

SWITCHED: list[Row] = [
    ("D033", move(b"copy", b"agentic/orchestrator/gates.yaml", b"src/c.txt"), GUARDED),
    ("D033", move(b"copy", b"protected.txt", b"src/c.txt"), GUARDED),
    ("D034", move(b"copy", b"tracked_out/secret.txt", b"src/c.txt"), PLACE),
    ("D034", move(b"copy", b"tracked_out", b"src/c"), NAME),
    ("D035", move(b"copy", b"/etc/passwd", b"src/c.txt"), NAME),
    ("D038", move(b"copy", b"src/a.txt", b"src/b.txt"), PLACE),
    ("D039", move(b"copy", b".env", b"src/c.txt"), PLACE),
    ("D039", move(b"rename", b".env", b"src/c.txt"), PLACE),
    ("D054", link(b".gitmodules", b"src/a.txt"), GUARDED),
    ("D055", link(b"src/.gitattributes", b"a.txt"), GUARDED),
    ("D070", link(b"l", b"/etc/passwd"), NAME),
    ("D070", link(b"src/l", b"../../outside/secret.txt"), NAME),
    ("D070", link(b"l", b".git/config"), NAME),
    ("D070", link(b"l", b"src/../../outside"), NAME),
    ("D070", link(b"l", b"tracked_out/secret.txt"), NAME),
    ("D070", link(b"l", b"tracked_in/../.."), NAME),
    ("D070", link(b"m", b"l") + link(b"l", b"m"), NAME),
    ("D070", link(b"l", b"C:\\x"), NAME),
    ("D070", link(b"l", b".").replace(MARKER, b""), NAME),
    ("D074", create(b"tracked_out/new.txt"), PLACE),
    ("D075", create(b"tracked_in/new.txt"), PLACE),
    (
        "D078",
        git_edit(b"tracked_in", b"index 1234567..89abcde 120000\n").replace(
            HUNK, b"@@ -1 +1 @@\n-src\n%b+../outside\n%b" % (MARKER, MARKER)
        ),
        NAME,
    ),
    ("D078", move(b"rename", b"tracked_out", b"src/l"), NAME),
    ("D082", link(b"l", b"/proc/self/environ"), NAME),
    ("D084", link(b"src/a.txt.rej", b"b.txt") + NOT_THERE, PLACE),
    ("D086", link(b"src", b"tracked_in"), PLACE),
    ("D116", git_edit(b"src/a.txt", b"index 1234567..89abcde 120000\n"), TEXT),
    ("D139", quoted(b"*.txt"), NAME),
    ("D144", quoted(rb"a\342\200\256b"), NAME),
    ("D163", packed(b"src/a.py", b"import os\n"), TEXT),
    ("D163", packed(b"src/a.py", b""), TEXT),
    ("D166", binary(b"x.bin", PICTURE, len(PICTURE)), PLACE),
]


@pytest.mark.series(12)
@rows_of([*UNSWITCHED, *SWITCHED])
def test_no_switch_opens_more_than_it_names(arena: Arena, row: str, diff: bytes, code: str) -> None:
    arena.allow(**dict.fromkeys(SWITCHES, True))
    assert refused(arena, diff)["code"] == code


LISTED = [
    line.split("\t") for line in (Path(__file__).parents[1] / "requirements/hostile.tsv").read_text().splitlines()
]
TAKEN = {"D076", "D107", "D117", "D119", "D147", "D148", "D152"}


def test_every_diff_of_the_list_has_a_row() -> None:
    refused_rows = {row for row, *_ in (*REFUSED, *TREE)}
    assert {row for row, *_ in LISTED if row.startswith("D")} == refused_rows | TAKEN


# --- what must be taken --------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "diff", "body"), ACCEPTED, ids=[row for row, *_ in ACCEPTED])
def test_what_only_looks_hostile_is_taken_as_content(
    arena: Arena, row: str, diff: bytes, body: tuple[bytes, ...]
) -> None:
    old = [line[1:] for line in body if not line.startswith(b"+")]
    if old != [b"x"]:
        lines = b"".join(b"+" + line + b"\n" for line in old)
        accepted(arena, edit(b"x").replace(HUNK, b"@@ -1 +1,%d @@\n-x\n%b" % (len(old), lines)))

    accepted(arena, diff)

    assert arena.content("x").encode() == b"".join(line[1:] + b"\n" for line in body if not line.startswith(b"-"))
    assert arena.changed() == {"x": "modify"}


@pytest.mark.hostile("D152")
def test_a_crlf_patch_changes_a_crlf_file(arena: Arena) -> None:
    accepted(arena, edit(b"crlf.txt").replace(HUNK, b"@@ -1 +1 @@\n-x\r\n+y\r\n"))
    assert arena.content("crlf.txt") == "y\r\n"


FAR_OFF = edit(b"two.txt").replace(b"@@ -1 +1 @@", b"@@ -99999 +99999 @@")


@pytest.mark.hostile("D119")
def test_a_hunk_far_beyond_the_end_goes_to_the_one_place_that_fits(arena: Arena) -> None:
    accepted(arena, FAR_OFF)
    assert arena.content("two.txt") == "y\nrest\n"


@pytest.mark.hostile("D119")
def test_a_hunk_far_beyond_the_end_is_refused_where_places_are_exact(arena: Arena) -> None:
    arena.allow(placement="exact")
    error = refused(arena, FAR_OFF)
    assert (error["code"], error["details"]["candidate_lines"]) == (PLACE, [1])


def test_lines_that_are_added_without_context_are_refused_and_with_it_taken(arena: Arena) -> None:
    bare, with_context = b"@@ -1,0 +2 @@\n+between\n", b"@@ -1 +1,2 @@\n x\n+between\n"
    assert refused(arena, edit(b"two.txt").replace(HUNK, bare))["code"] == PLACE
    accepted(arena, edit(b"two.txt").replace(HUNK, with_context))
    assert arena.content("two.txt") == "x\nbetween\nrest\n"


@pytest.mark.req("AOP-134", "AOP-177")
def test_a_rename_and_a_new_mode_count_with_both_names(arena: Arena) -> None:
    executable = b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    answer = accepted(arena, move(b"rename", b"src/a.txt", b"src/c.txt") + executable)
    assert arena.changed() == {"src/a.txt": "delete", "src/c.txt": "create", "x": "modify"}
    assert answer.data["status"] == "D  src/a.txt\nA  src/c.txt\nM  x\n"
    assert os.access(arena.worktree / "x", os.X_OK)


IN_PLACE: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda leaf, canary: leaf.symlink_to(canary),
    "a second name of the canary": lambda leaf, canary: leaf.hardlink_to(canary),
    "a pipe": lambda leaf, _canary: os.mkfifo(leaf),
    "a folder": lambda leaf, _canary: leaf.mkdir(),
    "nothing": lambda _leaf, _canary: None,
}


@pytest.mark.hostile("D076")
@pytest.mark.parametrize("what", IN_PLACE)
def test_what_stands_in_place_of_a_file_is_replaced_and_not_written_through(arena: Arena, what: str) -> None:
    leaf = arena.worktree / "src" / "a.txt"
    leaf.unlink()
    IN_PLACE[what](leaf, arena.outside / "canary.txt")
    accepted(arena, edit(b"src/a.txt"))
    assert (arena.content("src/a.txt"), leaf.is_symlink()) == ("y\n", False)


@pytest.mark.hostile("D076")
def test_a_link_in_place_of_a_folder_is_set_aside_and_not_followed(arena: Arena) -> None:
    shutil.rmtree(arena.worktree / "src")
    (arena.worktree / "src").symlink_to(arena.outside)
    answer = accepted(arena, edit(b"src/a.txt") + create(b"src/new.txt"))
    assert (arena.content("src/a.txt"), arena.content("src/new.txt")) == ("y\n", "y\n")
    assert answer.evidence == {"set_aside_in_worktree": ["src"]}


@pytest.mark.hostile("D107")
@pytest.mark.parametrize("name", ["new.txt", ".env", "folder/new.txt"])
def test_a_file_that_git_does_not_know_is_set_aside_and_never_lost(arena: Arena, name: str) -> None:
    target = arena.worktree / name
    target.parent.mkdir(exist_ok=True)
    target.write_text("precious\n")
    answer = accepted(arena, create(name.encode()))
    assert (arena.content(name), answer.evidence) == ("y\n", {"set_aside_in_worktree": [name]})
    kept = [path.read_text() for path in (arena.root / ".aop/quarantine").rglob("*") if path.is_file()]
    assert kept == ["precious\n"]


@pytest.mark.hostile("D049")
def test_a_folder_that_git_takes_for_a_repository_needs_a_person(arena: Arena) -> None:
    names = ("HEAD", "config", "objects/x", "refs/x")
    arena.decree(PERMISSIVE + "permitted_protected_paths: [vendor]\n")
    accepted(arena, b"".join(create(f"vendor/{name}".encode()) for name in names))
    assert arena.changed() == {f"vendor/{name}": "create" for name in names}


@pytest.mark.hostile("D055", "D058")
def test_a_file_that_steers_git_needs_a_person(arena: Arena) -> None:
    arena.decree(PERMISSIVE + "permitted_protected_paths: [.gitignore, src/.gitattributes]\n")
    accepted(arena, appended(b".gitignore", b"build/", after=b".env") + create(b"src/.gitattributes"))
    assert refused(arena, create(b".gitattributes"))["code"] == GUARDED


# --- what a switch of the policy opens -----------------------------------------------------------


def test_copies_are_taken_where_they_are_switched_on(arena: Arena) -> None:
    arena.allow(allow_copy=True)
    accepted(arena, move(b"copy", b"src/a.txt", b"src/c.txt"))
    assert (arena.content("src/c.txt"), arena.changed()) == ("x\n", {"src/c.txt": "create"})


def test_bytes_are_taken_where_they_are_switched_on(arena: Arena) -> None:
    arena.allow(allow_binary=True)
    (arena.root / "logo.png").write_bytes(PICTURE)
    accepted(arena, git(arena.root, "diff", "--no-index", "--binary", os.devnull, "logo.png", check=False).encode())
    assert (arena.worktree / "logo.png").read_bytes() == PICTURE


def test_links_inside_the_repository_are_taken_where_they_are_switched_on(arena: Arena) -> None:
    arena.allow(allow_symlinks=True)
    accepted(arena, link(b"src/l", b"a.txt") + link(b"docs/src", b"../src"))
    assert [os.readlink(arena.worktree / path) for path in ("src/l", "docs/src")] == ["a.txt", "../src"]

    index = b"index 1234567..89abcde 120000\n"
    retargeted = b"@@ -1 +1 @@\n-a.txt\n%b+b.txt\n%b" % (MARKER, MARKER)
    gone = delete(b"docs/src", b"120000", b"@@ -1 +0,0 @@\n-../src\n" + MARKER)
    accepted(arena, git_edit(b"src/l", index).replace(HUNK, retargeted) + gone)
    assert (os.readlink(arena.worktree / "src/l"), arena.changed()) == ("b.txt", {"src/l": "create"})


@pytest.mark.req("AOP-131")
def test_links_that_lead_out_are_taken_only_where_that_is_switched_on_too(arena: Arena) -> None:
    arena.decree(PERMISSIVE + "  allow_symlinks: true\npath_rules:\n  allow_symlink_traversal: true\n")
    accepted(arena, link(b"l", b"../outside"))
    assert os.readlink(arena.worktree / "l") == "../outside"


def test_quoted_names_are_taken_where_they_are_switched_on(arena: Arena) -> None:
    arena.allow(allow_quoted_names=True)
    accepted(arena, quoted(rb"src/\303\251.txt") + quoted(rb"src/say \"hi\".txt"))
    assert arena.changed() == {'src/say "hi".txt': "create", "src/\u00e9.txt": "create"}
    assert (arena.content('src/say "hi".txt'), arena.content("src/\u00e9.txt")) == ("y\n", "y\n")


# --- secrets -------------------------------------------------------------------------------------

SECRET = PLANTED["github-token"].encode()
SECRETS = [
    ("K01", written(b"src/c.py", b"token = '" + SECRET + b"'")),
    ("K01", packed(b"x.bin", b"\0" + SECRET + b"\n")),
    ("K05", create(b"src/%b.txt" % SECRET)),
    ("K05", move(b"rename", b"src/a.txt", b"src/" + SECRET)),
    ("K11", written(b"src/c.py", b"token = '" + SECRET + b"'  # pragma: allowlist secret")),
]


@pytest.mark.parametrize(("row", "diff"), SECRETS, ids=[row for row, _ in SECRETS])
def test_a_patch_that_brings_a_secret_is_refused_and_the_secret_never_repeated(
    arena: Arena, row: str, diff: bytes
) -> None:
    arena.allow(**dict.fromkeys(SWITCHES, True))
    error = refused(arena, diff)
    assert (error["code"], error["details"]["rules"]) == ("secret_detected", ["github-token"])
    assert SECRET.decode() not in str(error)


LEAVING = {
    "a line that is changed": "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-{line}\n+y\n",
    "a whole file": "--- a/src/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-{line}\n",
}


@pytest.mark.hostile("K06")
@pytest.mark.parametrize("diff", LEAVING.values(), ids=LEAVING)
def test_a_secret_that_a_patch_takes_out_is_reported_and_stops_nobody(arena: Arena, diff: str) -> None:
    line = f"token = '{SECRET.decode()}'"
    arena.commit("src/a.txt", f"{line}\n")
    arena.ok("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True, force=True)
    arena.init()
    answer = arena.ok("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff.format(line=line))
    assert answer["warnings"] == [
        "`src/a.txt` loses what looks like a secret (github-token): it stays in the history, so revoke it."
    ]
