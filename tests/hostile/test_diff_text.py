"""Hostile diffs that the text alone gives away, before git or a tree is asked."""

from __future__ import annotations

import zlib
from base64 import b85encode

import pytest

from aop.core.errors import PatchDoesNotApply, Refusal
from aop.kernel.config.policy import Placement
from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import parse_patch
from aop.kernel.patches.placement import place

HUNK = b"@@ -1 +1 @@\n-x\n+y\n"
ADDED = b"@@ -0,0 +1 @@\n+y\n"
REMOVED = b"@@ -1 +0,0 @@\n-x\n"
MARKER = b"\\ No newline at end of file\n"

NAME = "path_out_of_bounds"
TEXT = "invalid_patch"


def edit(path: bytes) -> bytes:
    return b"--- a/%b\n+++ b/%b\n" % (path, path) + HUNK


def git_edit(path: bytes, extended: bytes = b"") -> bytes:
    return b"diff --git a/%b b/%b\n" % (path, path) + extended + edit(path)


def create(path: bytes, mode: bytes = b"100644", hunk: bytes = ADDED) -> bytes:
    header = b"diff --git a/%b b/%b\nnew file mode %b\n--- /dev/null\n+++ b/%b\n" % (path, path, mode, path)
    return header + hunk


def delete(path: bytes, mode: bytes = b"100644", hunk: bytes = REMOVED) -> bytes:
    header = b"diff --git a/%b b/%b\ndeleted file mode %b\n--- a/%b\n+++ /dev/null\n" % (path, path, mode, path)
    return header + hunk


def link(path: bytes, target: bytes) -> bytes:
    return create(path, b"120000", b"@@ -0,0 +1 @@\n+" + target + b"\n" + MARKER)


def move(verb: bytes, old: bytes, new: bytes) -> bytes:
    return b"diff --git a/%b b/%b\n%b from %b\n%b to %b\n" % (old, new, verb, old, verb, new)


def quoted(path: bytes) -> bytes:
    old, new = b'"a/%b"' % path, b'"b/%b"' % path
    return b"diff --git %b %b\nnew file mode 100644\n--- /dev/null\n+++ %b\n" % (old, new, new) + ADDED


def binary(path: bytes, content: bytes, declared: int) -> bytes:
    packed = zlib.compress(content, 9)
    lines = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    body = b"".join(letters[len(line) - 1 :][:1] + b85encode(line, pad=True) + b"\n" for line in lines)
    header = b"diff --git a/%b b/%b\nnew file mode 100644\nindex %b..%b\n" % (path, path, b"0" * 40, b"1" * 40)
    return header + b"GIT binary patch\nliteral %d\n" % declared + body + b"\n"


BOMB = binary(b"bomb.bin", bytes(512 * 1024), 512 * 1024 * 1024)

REFUSED = [
    ("D001", create(b"/tmp/p"), NAME),
    ("D001", edit(b"/abs"), NAME),
    ("D002", b"--- /tmp/p\n+++ /tmp/p\n" + HUNK, TEXT),
    ("D002", b"--- /dev/null\n+++ /tmp/p\n" + ADDED, TEXT),
    ("D003", edit(b"../outside"), NAME),
    ("D005", git_edit(b"src/../../outside"), NAME),
    ("D006", git_edit(b"src/../protected.txt"), NAME),
    ("D007", git_edit(b"./protected.txt"), NAME),
    ("D009", create(b"newdir/"), NAME),
    ("D010", create(b"..\\outside\\p"), NAME),
    ("D011", create(b"C:/x"), NAME),
    ("D013", quoted(rb"\056\056/p"), TEXT),
    ("D014", quoted(rb"\056git/hooks/post-checkout"), TEXT),
    ("D015", b"--- /dev/null\n+++ b/\n" + ADDED, NAME),
    ("D015", b"--- a/\n+++ b/\n" + HUNK, NAME),
    ("D015", b"--- \n+++ \n" + HUNK, TEXT),
    ("D017", create(b"/".join([b"ninebytes"] * 500)), NAME),
    ("D018", b"--- src/a.txt\n+++ src/a.txt\n" + HUNK, TEXT),
    ("D018", b"diff --git src/a.txt src/a.txt\n--- src/a.txt\n+++ src/a.txt\n" + HUNK, TEXT),
    ("D018", b"--- a/src/a.txt\n+++ a/src/a.txt\n" + HUNK, TEXT),
    ("D019", b"--- a/src/a.txt\n+++ b/protected.txt\n" + HUNK, TEXT),
    ("D021", b"diff --git a/src/a.txt b/src/a.txt\n" + edit(b"protected.txt"), TEXT),
    ("D021", b"diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/protected.txt\n" + HUNK, TEXT),
    ("D022", b"diff --git a/src/a.txt b/protected.txt\n", TEXT),
    ("D022", b"diff --git a/src/a.txt b/protected.txt\n--- a/src/a.txt\n+++ b/protected.txt\n" + HUNK, TEXT),
    ("D022", b"diff --git a/aa.txt b/bb.txt\ndeleted file mode 100644\n--- a/aa.txt\n+++ /dev/null\n" + REMOVED, TEXT),
    ("D023", b"--- a/new\t1970-01-01 00:00:00.000000000 +0000\n+++ b/new\t2026-01-01 00:00:00 +0000\n" + ADDED, TEXT),
    ("D023", b"--- a/new\t2026-01-01 00:00:00 +0000\n+++ b/new\t1969-12-31 19:00:00 -0500\n" + REMOVED, TEXT),
    ("D025", b"--- a/protected.txt\n+++ b/protected.txt.orig\n" + HUNK, TEXT),
    ("D025", b"--- a/protected.txt.orig\n+++ b/protected.txt\n" + HUNK, TEXT),
    ("D030", move(b"rename", b"src/a.txt", b"../outside"), NAME),
    ("D031", move(b"copy", b"../outside/secret.txt", b"src/b.txt"), TEXT),
    ("D033", move(b"copy", b".git", b"src/b.txt"), TEXT),
    ("D034", move(b"copy", b"tracked_out/secret.txt", b"src/b.txt"), TEXT),
    ("D035", move(b"rename", b"/etc/passwd", b"src/b.txt"), NAME),
    (
        "D037",
        b"diff --git a/src/a.txt b/src/a.txt\nrename from protected.txt\nrename to src/a.txt\n",
        TEXT,
    ),
    (
        "D037",
        b"diff --git a/src/a.txt b/src/b.txt\nrename from src/a.txt\nrename to src/b.txt\n"
        b"--- a/protected.txt\n+++ b/src/b.txt\n" + HUNK,
        TEXT,
    ),
    ("D039", move(b"copy", b".env", b"src/b.txt"), TEXT),
    ("D041", create(b".GIT/hooks/x"), NAME),
    ("D042", create(b"git~1/hooks/x"), NAME),
    ("D043", create(b".git./x"), NAME),
    ("D045", create(b".git::$INDEX_ALLOCATION/x"), NAME),
    ("D046", create(".g\u200cit/hooks/x".encode()), NAME),
    ("D047", create(".gi\u200dt/config".encode()), NAME),
    ("D050", edit(b".git"), NAME),
    ("D051", delete(b".git"), NAME),
    ("D054", link(b".gitmodules", b"src/a.txt"), TEXT),
    ("D070", link(b"l", b"/etc/passwd"), TEXT),
    ("D071", link(b"l", b"../outside") + create(b"l/x"), TEXT),
    ("D072", create(b"l/x") + link(b"l", b"../outside"), TEXT),
    ("D078", git_edit(b"tracked_in", b"index 1234567..89abcde 120000\n"), TEXT),
    ("D079", delete(b"src/a.txt") + link(b"src/a.txt", b"../outside"), TEXT),
    ("D080", b"diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", TEXT),
    ("D082", link(b"l", b"/proc/self/environ"), TEXT),
    ("D083", delete(b"l", b"120000") + create(b"l/x"), TEXT),
    ("D086", delete(b"src/a.txt") + link(b"src", b"../outside"), TEXT),
    ("D090", create(b"sub", b"160000", b"@@ -0,0 +1 @@\n+Subproject commit " + b"1" * 40 + b"\n"), TEXT),
    ("D091", create(b".git", b"160000", b"@@ -0,0 +1 @@\n+Subproject commit " + b"1" * 40 + b"\n"), NAME),
    ("D093", create(b"sub/x") + create(b"sub", b"160000"), TEXT),
    ("D100", edit(b"x") + b"+extra\n", TEXT),
    ("D100", b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n e\n", TEXT),
    ("D101", b"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+c\n", TEXT),
    ("D103", create(b"x") + create(b"x"), TEXT),
    ("D104", create(b"x") + delete(b"x"), TEXT),
    ("D105", delete(b"x") + create(b"x"), TEXT),
    ("D108", b"--- /dev/null\n+++ /dev/null\n" + HUNK, TEXT),
    ("D108", b"diff --git a/x b/x\n--- /dev/null\n+++ /dev/null\n" + HUNK, TEXT),
    ("D111", delete(b"x", hunk=b"@@ -1,2 +1 @@\n-x\n y\n"), TEXT),
    ("D111", delete(b"x", hunk=HUNK), TEXT),
    ("D112", create(b"x", b"104755"), TEXT),
    ("D113", create(b"x", b"100777"), TEXT),
    ("D115", create(b"x", b"060000"), TEXT),
    ("D115", create(b"x", b"999999"), TEXT),
    ("D115", b"diff --git a/x b/x\nold mode 100644\nnew mode \n", TEXT),
    ("D116", git_edit(b"x", b"index 1234567..89abcde 120000\n"), TEXT),
    ("D120", b"--- a/x\n+++ b/x\n@@ -99999999999999999999 +1 @@\n-x\n+y\n", TEXT),
    ("D120", b"--- a/x\n+++ b/x\n@@ -1,18446744073709551617 +1 @@\n-x\n+y\n", TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ --1,3 +1,3 @@\n-x\n+y\n", TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ -1, +1 @@\n-x\n+y\n", TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ -1 +1\n-x\n+y\n", TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ -1 +1 @@@@\n-x\n+y\n", TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ -1_0 +1 @@\n-x\n+y\n", TEXT),
    ("D121", "--- a/x\n+++ b/x\n@@ -\u0661 +1 @@\n-x\n+y\n".encode(), TEXT),
    ("D121", b"--- a/x\n+++ b/x\n@@ ... @@\n-x\n+y\n", TEXT),
    ("D123", b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n@@ -3,2 +3,2 @@\n d\n-e\n+f\n", TEXT),
    ("D123", edit(b"x").replace(HUNK, b"@@ -2,0 +3 @@\n+x\n@@ -2,0 +4 @@\n+y\n"), TEXT),
    ("D124", edit(b"x").replace(HUNK, b"@@ -9 +9 @@\n-x\n+y\n" + HUNK), TEXT),
    ("D125", b"diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n--x\n++y\n", TEXT),
    ("D125", b"--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n--x\n++y\n", TEXT),
    ("D127", b"*** a/p\n--- b/p\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n" + edit(b"x"), TEXT),
    ("D127", edit(b"x") + b"*** a/p\n--- b/p\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n", TEXT),
    ("D128", b"", TEXT),
    ("D128", b"\n \n\n", TEXT),
    ("D129", b"I changed the file as you asked.\n", TEXT),
    ("D131", b"Fix the typo\n\n" + edit(b"protected.txt") + b"\n" + edit(b"x"), TEXT),
    ("D131", edit(b"protected.txt") + b"\nSigned-off-by: me\n---\n" + edit(b"x"), TEXT),
    ("D132", edit(b"x") + b"+trailing\n", TEXT),
    ("D132", edit(b"x") + b"\n+trailing\n", TEXT),
    ("D132", edit(b"x") + b"trailing\n", TEXT),
    ("D132", edit(b"x") + b"-- \n2.39.5\n", TEXT),
    ("D133", b"diff --git a/x b/x\n", TEXT),
    ("D133", b"diff --git a/x b/x\nindex 1234567..89abcde 100644\n", TEXT),
    ("D133", b"diff --git a/x b/x\n" + git_edit(b"y"), TEXT),
    ("D135", quoted(rb"a\nb"), TEXT),
    ("D136", quoted(rb"a\033[31mb"), TEXT),
    ("D136", create(b"a\x1b[31mb"), NAME),
    ("D137", create(b"-rf"), NAME),
    ("D139", create(b"*.txt"), NAME),
    ("D140", create(b"README.md") + create(b"readme.md"), TEXT),
    ("D140", create(b"src/a") + create(b"SRC/b"), TEXT),
    ("D140", create("straße".encode()) + create(b"STRASSE"), TEXT),
    ("D141", create(b"CON"), NAME),
    ("D141", create(b"src/aux.txt"), NAME),
    ("D141", create(b"trailing."), NAME),
    ("D143", create(b"a") + create(b"a/b"), TEXT),
    ("D143", create(b"a/b/c") + create(b"a/b"), TEXT),
    ("D144", create("a\u202etxt.py".encode()), NAME),
    ("D145", quoted(rb"a\377b"), TEXT),
    ("D145", create(b"a\xffb"), TEXT),
    ("D153", edit(b"x")[:-1], TEXT),
    ("D154", edit(b"x\ry"), TEXT),
    ("D154", edit(b"x").replace(b"\n", b"\r\n"), TEXT),
    ("D154", edit(b"x").replace(b"@@\n", b"@@\r\n"), TEXT),
    ("D156", b"\xef\xbb\xbf" + edit(b"x"), TEXT),
    ("D157", edit(b"x").decode().encode("utf-16"), TEXT),
    ("D157", edit(b"x").decode().encode("utf-16-le"), TEXT),
    ("D158", edit(b"x").replace(b"+y", b"+y\0z"), TEXT),
    ("D161", BOMB, TEXT),
    ("D162", b"diff --git a/x b/x\nindex 1234567..89abcde 100644\nBinary files a/x and b/x differ\n", TEXT),
    ("D162", b"Binary files a/x and b/x differ\n", TEXT),
    ("D163", binary(b"src/a.py", b"import os\n", 10), TEXT),
    ("D165", binary(b"x.bin", b"text", 4).replace(b"\nL", b'\nL"'), TEXT),
    ("D166", binary(b"x.bin", b"text", 4), TEXT),
    ("D167", b"".join(create(b"f%d" % number) for number in range(2001)), TEXT),
    ("D169", edit(b"x").replace(b"+y", b"+" + b"y" * 1024 * 1024), TEXT),
    ("D170", edit(b"x") + b"\n" * 4 * 1024 * 1024, TEXT),
]


@pytest.mark.parametrize(("row", "text", "code"), REFUSED, ids=[row for row, *_ in REFUSED])
def test_what_the_text_gives_away_is_refused(row: str, text: bytes, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_patch(text, PatchRules())
    assert refused.value.code == code
    assert refused.value.facts["reason"]
    assert refused.value.message.isprintable()


EVERYTHING = PatchRules(allow_copy=True, allow_binary=True, allow_symlinks=True, allow_quoted_names=True)
UNSWITCHED = [
    ("D013", quoted(rb"\056\056/p"), NAME),
    ("D014", quoted(rb"\056git/hooks/post-checkout"), NAME),
    ("D031", move(b"copy", b"../outside/secret.txt", b"src/b.txt"), NAME),
    ("D033", move(b"copy", b".git", b"src/b.txt"), NAME),
    ("D071", link(b"l", b"../outside") + create(b"l/x"), TEXT),
    ("D072", create(b"l/x") + link(b"l", b"../outside"), TEXT),
    ("D079", delete(b"src/a.txt") + link(b"src/a.txt", b"../outside"), TEXT),
    ("D080", b"diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", TEXT),
    ("D083", delete(b"l", b"120000", REMOVED + MARKER) + create(b"l/x"), TEXT),
    ("D086", delete(b"src/a.txt") + link(b"src", b"../outside"), TEXT),
    ("D090", create(b"sub", b"160000"), TEXT),
    ("D135", quoted(rb"a\nb"), NAME),
    ("D136", quoted(rb"a\033[31mb"), NAME),
    ("D145", quoted(rb"a\377b"), TEXT),
    ("D161", BOMB, TEXT),
    ("D161", binary(b"bomb.bin", bytes(512 * 1024), 1024), TEXT),
    ("D162", b"diff --git a/x b/x\nBinary files a/x and b/x differ\n", TEXT),
    ("D165", binary(b"x.bin", b"text", 4).replace(b"\nL", b'\nL"'), TEXT),
]


@pytest.mark.parametrize(("row", "text", "code"), UNSWITCHED, ids=[row for row, *_ in UNSWITCHED])
def test_no_switch_of_the_policy_opens_more_than_it_names(row: str, text: bytes, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_patch(text, EVERYTHING)
    assert refused.value.code == code


LOOKS_LIKE_HEADERS = (b" a", b"--- a/src/a.txt", b"-- x", b"+++ b/src/a.txt", b"+@@ -1 +1 @@", b"+diff --git a/p b/p")
ACCEPTED = [
    ("D117", git_edit(b"x", b"index deadbeef..cafebabe 100644\n"), (b"-x", b"+y")),
    (
        "D147",
        edit(b"x").replace(HUNK, b"@@ -1,3 +1,4 @@\n" + b"\n".join(LOOKS_LIKE_HEADERS) + b"\n"),
        LOOKS_LIKE_HEADERS,
    ),
    ("D148", b"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n--- x\n+++ y\n-z\n", (b"--- x", b"+++ y", b"-z")),
    ("D152", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\r\n+y\r\n", (b"-x\r", b"+y\r")),
]


@pytest.mark.parametrize(("row", "text", "content"), ACCEPTED, ids=[row for row, *_ in ACCEPTED])
def test_what_only_looks_hostile_is_content_of_one_file(row: str, text: bytes, content: tuple[bytes, ...]) -> None:
    (file,) = parse_patch(text, PatchRules()).files
    assert file.paths == {"x"}
    assert [hunk.lines for hunk in file.hunks] == [content]


@pytest.mark.hostile("D119")
def test_a_line_far_beyond_the_end_goes_to_the_only_place_unless_the_policy_wants_it_exact() -> None:
    (file,) = parse_patch(b"--- a/x\n+++ b/x\n@@ -99999 +99999 @@\n-two\n+2\n", PatchRules()).files
    assert [hunk.header for hunk in place(file.hunks, b"one\ntwo\n", mode=Placement.UNIQUE)] == ["@@ -2,1 +2,1 @@"]
    with pytest.raises(PatchDoesNotApply):
        place(file.hunks, b"one\ntwo\n", mode=Placement.EXACT)


@pytest.mark.hostile("D150")
@pytest.mark.parametrize("mode", list(Placement))
def test_an_lf_patch_does_not_fit_a_crlf_file(mode: Placement) -> None:
    (file,) = parse_patch(edit(b"x"), PatchRules()).files
    with pytest.raises(PatchDoesNotApply) as refused:
        place(file.hunks, b"x\r\n", mode=mode)
    assert "only the carriage return at the ends of lines differs" in refused.value.message


@pytest.mark.hostile("D152")
def test_a_crlf_patch_fits_a_crlf_file() -> None:
    (file,) = parse_patch(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\r\n+y\r\n", PatchRules()).files
    assert place(file.hunks, b"x\r\n", mode=Placement.EXACT) == file.hunks
