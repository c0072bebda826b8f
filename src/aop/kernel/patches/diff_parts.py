"""Diff parts: the diff of two trees, file by file, with counts of lines."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from aop.core.errors import Fault
from aop.kernel.patches.file_names import git_spelling

_START = b"diff --git "


class DiffPart(Struct, frozen=True, kw_only=True):
    """The diff of one file."""

    text: bytes
    added: int
    removed: int
    binary: bool


def parts_by_path(diff: bytes, paths: Iterable[str]) -> dict[str, DiffPart]:
    """Return the part of each changed path; a part without a path is a fault."""
    path_of = {_header(path): path for path in paths}
    parts: dict[str, DiffPart] = {}
    # Every line of content begins with a mark, so `diff --git` at the start of a line is a header.
    for section in (b"\n" + diff).split(b"\n" + _START)[1:]:
        header, _, _ = section.partition(b"\n")
        path = path_of.get(header)
        if path is None:
            raise Fault(f"The diff names {header[:200]!r}, which differs in no tree.")
        part = _part(_START + section.removesuffix(b"\n") + b"\n")
        parts[path] = _joined(parts[path], part) if path in parts else part
    return parts


def _header(path: str) -> bytes:
    return git_spelling(f"a/{path}") + b" " + git_spelling(f"b/{path}")


def _part(text: bytes) -> DiffPart:
    header, _, hunks = text.partition(b"\n@@ ")
    return DiffPart(
        text=text, added=hunks.count(b"\n+"), removed=hunks.count(b"\n-"), binary=b"\nBinary files " in header
    )


def _joined(old: DiffPart, new: DiffPart) -> DiffPart:
    """Join two parts: a file that becomes a link, or the reverse, is deleted and created."""
    return DiffPart(
        text=old.text + new.text,
        added=old.added + new.added,
        removed=old.removed + new.removed,
        binary=old.binary or new.binary,
    )
