"""Output of git: parsed, and written in the same form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from aop.core.errors import Fault
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry

_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAMED_ESCAPES = {0x07: "\\a", 0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0B: "\\v", 0x0C: "\\f", 0x0D: "\\r"}


class RawChange(Struct, frozen=True, kw_only=True):
    """One record of `--raw -z`."""

    path: str
    status: str
    old_mode: str
    new_mode: str
    old_oid: ObjectId
    new_oid: ObjectId


def object_id(text: str) -> str:
    """Return the text if it is a full object id, which git cannot take for an option or an expression."""
    if not _OBJECT_ID.fullmatch(text):
        raise Fault(f"{text[:80]!a} is not a git object id.")
    return text


def is_plain_path(path: str) -> bool:
    """Tell whether a path lies below the root and not in `.git`, as it is written."""
    parts = path.split("/")
    return all(part not in ("", ".", "..") and part.casefold() != ".git" for part in parts) and "\0" not in path


def text_of(name: bytes) -> str:
    """Decode a path; bytes that are not UTF-8 become lone surrogates, which policy can refuse."""
    return name.decode("utf-8", "surrogateescape")


def bytes_of(path: str) -> bytes:
    """Encode a path that `text_of` decoded."""
    return path.encode("utf-8", "surrogateescape")


def split_names(out: bytes) -> tuple[str, ...]:
    """Split NUL-ended names."""
    return tuple(text_of(name) for name in out.split(b"\0") if name)


def conflict_stages(records: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read records of conflicted files, `MODE OID STAGE<TAB>PATH` each; return the stages of each path."""
    stages: dict[str, tuple[int, ...]] = {}
    for record in records:
        described, _, path = record.partition("\t")
        stages[path] = (*stages.get(path, ()), int(described.split(" ")[2]))
    return stages


def join_names(paths: Iterable[str]) -> bytes:
    """Write names for a command that reads them from `--stdin -z`."""
    return b"".join(bytes_of(path) + b"\0" for path in paths)


def tree_entries(out: bytes) -> tuple[TreeEntry, ...]:
    """Read `ls-tree -z`."""
    entries = []
    for record in out.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        mode, _, oid = facts.decode("ascii").split(" ")
        entries.append(TreeEntry(path=text_of(name), mode=file_mode(mode), oid=ObjectId(oid)))
    return tuple(entries)


def raw_changes(out: bytes) -> Iterator[RawChange]:
    """Read `--raw -z` of two sides, without renames."""
    fields = out.split(b"\0")
    for facts, name in zip(fields[:-1:2], fields[1::2], strict=True):
        old_mode, new_mode, old_oid, new_oid, status = facts.decode("ascii").removeprefix(":").split(" ")
        yield RawChange(
            path=text_of(name),
            status=status[0],
            old_mode=old_mode,
            new_mode=new_mode,
            old_oid=ObjectId(old_oid),
            new_oid=ObjectId(new_oid),
        )


def file_mode(text: str | bytes) -> FileMode:
    """Return the mode as git reads it; old versions of git wrote other permission bits and leading zeros."""
    mode = int(text, 8)
    kind = mode & 0o170000
    if kind == 0o100000:
        return FileMode.EXECUTABLE if mode & 0o100 else FileMode.FILE
    return {0o120000: FileMode.SYMLINK, 0o040000: FileMode.TREE}.get(kind, FileMode.GITLINK)


def porcelain(accepted: Iterable[TreeChange], drift: Iterable[RawChange], untracked: Iterable[str]) -> str:
    """Write `git status --porcelain`: accepted changes as staged, differences on disk as not staged."""
    letters = {"create": "A", "delete": "D", "modify": "M"}
    staged = {change.path: letters[change.kind] for change in accepted}
    unstaged = {change.path: change.status for change in drift}
    changed = [
        f"{staged.get(path, ' ')}{unstaged.get(path, ' ')} {quote_name(path)}\n"
        for path in sorted({*staged, *unstaged})
    ]
    return "".join(changed + [f"?? {quote_name(path)}\n" for path in untracked])


def quote_name(path: str) -> str:
    """Write a name as `git status --porcelain` does, quoted if it is not plain."""
    if path.isprintable() and not any(letter in ' "\\' for letter in path):
        return path
    return '"' + "".join(_escape(letter) for letter in path) + '"'


def _escape(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    return "".join(_NAMED_ESCAPES.get(byte, f"\\{byte:03o}") for byte in bytes_of(letter))
