"""File headers of a diff: all header lines of a file must agree."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import InvalidPatch
from aop.core.paths.names import RepoPath
from aop.kernel.patches.binary import BinaryChange, scan_binary
from aop.kernel.patches.file_names import plain_name, prefixed_name, split_pair, take_sides
from aop.kernel.patches.hunks import Hunk, scan_hunks
from aop.kernel.patches.lines import PatchLines, PatchRules, invalid_patch, printable
from aop.kernel.ports.git import FileMode

GIT_HEADER = b"diff --git "

_EXTENDED = (
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "index ",
)

_NOT_A_FILE = (
    ((b"```",), "fenced", "a Markdown fence is not part of a diff; send the bare diff without it"),
    ((b"diff --cc ", b"diff --combined ", b"@@@"), "combined_diff", "a combined diff names no single old file"),
    ((b"*** ",), "context_diff", "this is a context diff; send a unified one (`diff -u`, `git diff`)"),
    ((b"Only in ",), "only_in", "`Only in` names a file without its content; send its lines against `/dev/null`"),
    ((b"Binary files ",), "binary_without_data", "`Binary files differ` says nothing about what they hold"),
    ((b"GIT binary patch",), "binary", "a binary change must follow the header of its file"),
    ((b"@@",), "no_file", "a hunk must follow the `---` and `+++` lines of its file"),
)


class FilePatch(Struct, frozen=True, kw_only=True):
    """The change of one file. A missing side is None, and so is an unstated mode."""

    old_path: RepoPath | None
    new_path: RepoPath | None
    old_mode: FileMode | None = None
    new_mode: FileMode | None = None
    hunks: tuple[Hunk, ...] = ()
    is_rename: bool = False
    is_copy: bool = False
    binary: BinaryChange | None = None

    @property
    def is_binary(self) -> bool:
        """Tell whether the new content is bytes instead of hunks."""
        return self.binary is not None

    @property
    def paths(self) -> frozenset[RepoPath]:
        """Return the names of both sides (AOP-134)."""
        return frozenset(path for path in (self.old_path, self.new_path) if path is not None)


def scan_file(lines: PatchLines) -> FilePatch:
    """Read the header and the content of the next file. Raises: InvalidPatch, PathOutOfBounds."""
    at = lines.number
    if lines.next_begins(GIT_HEADER):
        patch = _scan_git_file(lines)
    elif lines.next_begins(b"--- "):
        patch = _scan_traditional_file(lines)
    else:
        raise _not_a_file(lines)
    return _check_content(patch, at)


def _not_a_file(lines: PatchLines) -> InvalidPatch:
    line = lines.peek() or b""
    for starts, reason, why in _NOT_A_FILE:
        if line.startswith(starts):
            return invalid_patch(why, reason=reason, line=lines.number)
    why = f"{printable(line)} is not part of a diff; send nothing but the diff, and no text before, in between or after"
    return invalid_patch(why, reason="not_a_diff", line=lines.number)


def _scan_traditional_file(lines: PatchLines) -> FilePatch:
    at = lines.number
    old, new = take_sides(lines)
    if old is not None and new is not None and old != new:
        raise _names_differ(f"`{old}` and `{new}`; a rename needs `diff --git`, `rename from` and `rename to`", at)
    return FilePatch(
        old_path=old,
        new_path=new,
        new_mode=FileMode.FILE if old is None else None,
        hunks=scan_hunks(lines, str(new or old)),
    )


def _scan_git_file(lines: PatchLines) -> FilePatch:
    at = lines.number
    pair = lines.take_header()[len(GIT_HEADER) :]
    header = _ExtendedHeader(lines)
    moved = header.move()
    old, new = moved or _unmoved_names(pair, at, lines.rules)
    if moved and pair != f"a/{old} b/{new}".encode() and _named_pair(pair, at, lines.rules) != (old, new):
        raise _names_differ(f"{printable(pair)} does not name `{old}` and `{new}` as the lines below it do", at)
    created, deleted = header.creates(), header.deletes()
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryChange | None = None
    if lines.next_begins(b"--- "):
        sides_at = lines.number
        sides = take_sides(lines)
        if sides not in _agreeing_sides(old, new, created=created, deleted=deleted, moved=moved is not None):
            said = " and ".join(f"`{side or '/dev/null'}`" for side in sides)
            raise _names_differ(f"{said} do not agree with the lines above them", sides_at)
        created, deleted = sides[0] is None, sides[1] is None
        hunks = scan_hunks(lines, new)
    elif lines.next_begins(b"GIT binary patch"):
        binary = scan_binary(lines, header.value("index "))
    elif lines.peek() and not lines.next_begins(GIT_HEADER):
        raise _not_a_file(lines)
    old_mode, new_mode = header.modes(created=created, deleted=deleted)
    return FilePatch(
        old_path=None if created else old,
        new_path=None if deleted else new,
        old_mode=old_mode,
        new_mode=new_mode,
        hunks=hunks,
        is_rename=header.has("rename from "),
        is_copy=header.has("copy from "),
        binary=binary,
    )


def _agreeing_sides(
    old: RepoPath, new: RepoPath, *, created: bool, deleted: bool, moved: bool
) -> list[tuple[RepoPath | None, RepoPath | None]]:
    """Return the pairs that the `---` and `+++` lines may name; `/dev/null` alone creates or deletes."""
    if created:
        return [(None, new)]
    if deleted:
        return [(old, None)]
    return [(old, new)] if moved else [(old, new), (None, new), (old, None)]


def _unmoved_names(pair: bytes, at: int, rules: PatchRules) -> tuple[RepoPath, RepoPath]:
    names = _named_pair(pair, at, rules)
    if names is None or names[0] != names[1]:
        rule = "must be `a/NAME b/NAME` with one name, unless it is a rename or a copy"
        raise _names_differ(f"{printable(pair)} {rule}", at)
    return names


def _named_pair(pair: bytes, at: int, rules: PatchRules) -> tuple[RepoPath, RepoPath] | None:
    names = split_pair(pair)
    if names is None:
        return None
    return prefixed_name(names[0], b"a/", at=at, rules=rules), prefixed_name(names[1], b"b/", at=at, rules=rules)


def _names_differ(why: str, at: int) -> InvalidPatch:
    return invalid_patch(f"the names do not agree: {why}", reason="names_differ", line=at)


class _HeaderLine(NamedTuple):
    at: int
    value: bytes


class _ExtendedHeader:
    """The lines between `diff --git` and the content, each at most once."""

    def __init__(self, lines: PatchLines) -> None:
        self._at = lines.number - 1
        self._rules = lines.rules
        self._said: dict[str, _HeaderLine] = {}
        while key := next((key for key in _EXTENDED if lines.next_begins(key.encode())), None):
            if key in self._said:
                raise invalid_patch(f"`{key.strip()}` appears twice", reason="header", line=lines.number)
            at = lines.number
            self._said[key] = _HeaderLine(at, lines.take_header()[len(key) :])

    def has(self, key: str) -> bool:
        return key in self._said

    def value(self, key: str) -> bytes:
        return self._said[key].value if key in self._said else b""

    def creates(self) -> bool:
        return self.has("new file mode ")

    def deletes(self) -> bool:
        return self.has("deleted file mode ")

    def move(self) -> tuple[RepoPath, RepoPath] | None:
        """Return the names of a rename or a copy."""
        keys = [key for key in self._said if key.startswith(("rename ", "copy "))]
        if not keys:
            return None
        if sorted(keys) not in (["rename from ", "rename to "], ["copy from ", "copy to "]):
            raise self._contradiction("a rename has one `rename from` and one `rename to` line, and so has a copy")
        if keys[0].startswith("copy ") and not self._rules.allow_copy:
            at = self._said[keys[0]].at
            raise invalid_patch("copies are switched off by policy; create the new file", reason="copy", line=at)
        if self.creates() or self.deletes():
            raise self._contradiction("a file that is renamed or copied is neither new nor deleted")
        said = [self._said[key] for key in sorted(keys)]
        old, new = (plain_name(name.value, at=name.at, rules=self._rules) for name in said)
        if old == new:
            raise self._contradiction(f"`{old}` cannot become itself")
        return old, new

    def modes(self, *, created: bool, deleted: bool) -> tuple[FileMode | None, FileMode | None]:
        """Return the modes before and after, as far as the patch changes them."""
        if self.creates() and self.deletes():
            raise self._contradiction("a file cannot be new and deleted at once")
        old, new = self._mode("old mode "), self._mode("new mode ")
        if (old is None) != (new is None) or (old is not None and (created or deleted)):
            raise self._contradiction("`old mode` and `new mode` stand together, in the change of an existing file")
        if FileMode.SYMLINK in (old, new) and old != new:
            raise self._contradiction("a file cannot become a symbolic link, or the other way round")
        whole = self._mode("deleted file mode ") if deleted else self._mode("new file mode ")
        claimed = self._index_mode()
        if whole is not None and claimed not in (None, whole):
            raise self._contradiction(f"the index line says mode {claimed}, and the line above it {whole}")
        if created:
            return None, whole or FileMode.FILE
        if old is None and claimed is FileMode.SYMLINK:
            old = new = claimed
        return (whole, None) if deleted else (old, new)

    def _index_mode(self) -> FileMode | None:
        words = self.value("index ").split(b" ")
        if self.has("index ") and (len(words) > 2 or b".." not in words[0]):
            raise invalid_patch("the index line is garbled", reason="header", line=self._said["index "].at)
        return self._allowed_mode(words[1], self._said["index "].at) if len(words) == 2 else None

    def _mode(self, key: str) -> FileMode | None:
        return self._allowed_mode(self._said[key].value, self._said[key].at) if key in self._said else None

    def _allowed_mode(self, text: bytes, at: int) -> FileMode:
        allowed = [FileMode.FILE, FileMode.EXECUTABLE, *([FileMode.SYMLINK] if self._rules.allow_symlinks else [])]
        for mode in allowed:
            if text == mode.encode():
                return mode
        raise invalid_patch(f"the mode {printable(text)} is not allowed", reason="mode", line=at)

    def _contradiction(self, why: str) -> InvalidPatch:
        return invalid_patch(why, reason="contradiction", line=self._at)


def _check_content(patch: FilePatch, at: int) -> FilePatch:
    if patch.old_path is None:
        return _check_whole_file(patch, b"+", at, "a new file has nothing but `+` lines, in one hunk")
    if patch.new_path is None:
        return _check_whole_file(patch, b"-", at, "a deleted file has nothing but `-` lines, in one hunk")
    changes = patch.hunks or patch.binary or patch.old_path != patch.new_path or patch.old_mode != patch.new_mode
    if not changes:
        why = f"the header of `{patch.new_path}` changes nothing: no hunk, no new mode, no rename"
        raise invalid_patch(why, reason="no_change", line=at, path=patch.new_path)
    return patch


def _check_whole_file(patch: FilePatch, sign: bytes, at: int, rule: str) -> FilePatch:
    if not patch.hunks:
        return patch
    hunk = patch.hunks[0]
    if len(patch.hunks) > 1 or not all(line.startswith((sign, b"\\")) for line in hunk.lines):
        path = str(patch.new_path or patch.old_path)
        raise invalid_patch(f"`{path}`: {rule}", reason="half_a_file", line=at, path=path)
    # A new or deleted file begins at its first line, even if the hunk states another.
    return replace(patch, hunks=(replace(hunk, old_start=int(sign == b"-"), new_start=int(sign == b"+")),))
