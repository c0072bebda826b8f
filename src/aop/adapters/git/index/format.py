"""Format of git's index files: read, written, and edited in a few places.

Letting git rewrite an index of 20,000 entries costs more than the rest of a patch. An unusual one is left to git.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from aop.adapters.git.objects.trees import Side
from aop.core.errors import Fault
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode

_HEADER = struct.Struct(">4sII")
# Two times of the file (seconds, nanoseconds), device, inode, the mode that git gives it, owner, group, size.
_STAT = struct.Struct(">10I")
_MODE_AT = 24
_VERSION = 2
_LONGEST_NAME = 0xFFF
_NUMBERS: dict[FileMode, int] = {mode: int(mode.value, 8) for mode in FileMode if mode is not FileMode.TREE}
_MODES: dict[int, FileMode] = {number: mode for mode, number in _NUMBERS.items()}

Piece: TypeAlias = bytes | memoryview


class IndexLayout(Struct, frozen=True, kw_only=True):
    """The layout of an index of plain entries: their number and end, and git's notes about their folders."""

    checksum: bytes
    count: int
    entries_end: int
    folders: bytes


class Edit(Struct, frozen=True, kw_only=True):
    """A change of one path in an index; None stands for an absent entry."""

    path: bytes
    old: Side | None
    new: Side | None
    on_disk: os.stat_result | None = None
    """The status of the new file."""
    after: tuple[bytes, Side] | None = None
    """The entry before a new one, or None if the new one is the first."""


def serialize_index(entries: Mapping[bytes, Side], *, digest_size: int) -> bytes:
    """Return an index of these entries, without the status of any file."""
    records = [_record(path, side, None) for path, side in sorted(entries.items())]
    content = b"".join((_HEADER.pack(b"DIRC", _VERSION, len(records)), *records))
    return content + _digest((content,), digest_size)


def read_index(content: bytes, *, digest_size: int) -> dict[bytes, Side]:
    """Return the entries of an index. Raises: Fault if one is not plain."""
    entries: dict[bytes, Side] = {}
    try:
        for start, end in _entry_bounds(content, digest_size):
            flags = start + _STAT.size + digest_size
            mode = _MODES[_STAT.unpack_from(content, start)[6]]
            oid = ObjectId(content[flags - digest_size : flags].hex())
            entries[content[flags + 2 : end].rstrip(b"\0")] = (mode, oid)
    except (ValueError, LookupError, struct.error) as error:
        raise Fault("An index that git wrote cannot be read.") from error
    return entries


def entry_offsets(content: bytes, *, digest_size: int) -> Iterator[tuple[str, int]]:
    """Yield the path of each entry, as the operating system spells it, and its offset."""
    fixed = _STAT.size + digest_size + 2
    for start, _ in _entry_bounds(content, digest_size):
        yield os.fsdecode(content[start + fixed : content.index(0, start + fixed)]), start


def describes(content: bytes, at: int, on_disk: os.stat_result) -> bool:
    """Tell whether the entry at an offset has exactly this status of a file."""
    changed, changed_ns, modified, modified_ns, _, inode, mode, user, group, size = _STAT.unpack_from(content, at)
    kind = stat.S_IFMT(on_disk.st_mode)
    return (
        on_disk.st_mtime_ns == modified * 10**9 + modified_ns
        and on_disk.st_ctime_ns == changed * 10**9 + changed_ns
        and on_disk.st_size == size
        and on_disk.st_ino & 0xFFFFFFFF == inode
        and (on_disk.st_uid, on_disk.st_gid) == (user, group)
        # Git keeps only one of the rights of a file.
        and mode == (kind | (0o755 if on_disk.st_mode & stat.S_IXUSR else 0o644) if kind == stat.S_IFREG else kind)
    )


def is_submodule(content: bytes, at: int) -> bool:
    """Tell whether the entry at an offset is a submodule."""
    return bool(_STAT.unpack_from(content, at)[6] == _NUMBERS[FileMode.GITLINK])


def object_at(content: bytes, at: int, *, digest_size: int) -> ObjectId:
    """Return the object of the entry at an offset."""
    return ObjectId(content[at + _STAT.size : at + _STAT.size + digest_size].hex())


def layout_of(content: bytes, *, digest_size: int) -> IndexLayout | None:
    """Return what is certain about an index, or None if it is damaged or holds other than plain entries."""
    body = memoryview(content)[:-digest_size]
    if _digest((body,), digest_size) != content[-digest_size:]:
        return None
    try:
        end = max((end for _, end in _entry_bounds(content, digest_size)), default=_HEADER.size)
        folders, at = b"", end
        while at < len(body):
            name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "big")
            if not name.isupper():
                # Git itself refuses an index with such an extension if it does not know it.
                return None
            if name == b"TREE":
                folders = content[at + 8 : at + 8 + size]
            at += 8 + size
    except (ValueError, struct.error):
        return None
    return IndexLayout(
        checksum=content[-digest_size:], count=_HEADER.unpack_from(content)[2], entries_end=end, folders=folders
    )


def edit_index(
    content: bytes, known: IndexLayout, edits: Sequence[Edit], folders: bytes
) -> tuple[list[Piece], IndexLayout]:
    """Return the edited index in pieces, and its layout. Raises: LookupError if an entry is not as expected."""
    count = known.count + sum((edit.new is not None) - (edit.old is not None) for edit in edits)
    pieces = [_HEADER.pack(b"DIRC", _VERSION, count), *_edited_entries(content, known, edits)]
    entries_end = sum(map(len, pieces))
    pieces += (b"TREE", struct.pack(">I", len(folders)), folders)
    checksum = _digest(pieces, len(known.checksum))
    return [*pieces, checksum], IndexLayout(checksum=checksum, count=count, entries_end=entries_end, folders=folders)


def _edited_entries(content: bytes, known: IndexLayout, edits: Iterable[Edit]) -> Iterator[Piece]:
    view = memoryview(content)
    at = _HEADER.size
    # The ends of the entries that were found; None stands for the start.
    ends: dict[tuple[bytes, Side] | None, int] = {None: at}
    for edit in sorted(edits, key=lambda edit: edit.path):
        anchor = edit.after if edit.old is None else (edit.path, edit.old)
        if anchor is not None and anchor not in ends:
            ends[anchor] = _end_of_entry(content, anchor, at, known.entries_end)
        end = ends[anchor]
        yield view[at : end if edit.old is None else end - len(_record(edit.path, edit.old, None))]
        if edit.new is not None:
            yield _record(edit.path, edit.new, edit.on_disk)
        at = end
    yield view[at : known.entries_end]


def _end_of_entry(content: bytes, entry: tuple[bytes, Side], begin: int, end: int) -> int:
    """Return the end of an entry, found by its object, flags and name."""
    # No other bytes can be mistaken for it: a mode begins with NULs, and a name, which a stranger chooses, has none.
    path, (mode, oid) = entry
    record = _record(path, (mode, oid), None)
    at = content.find(record[_STAT.size :], begin, end)
    start = at - _STAT.size
    if at < 0 or content[start + _MODE_AT : start + _MODE_AT + 4] != record[_MODE_AT : _MODE_AT + 4]:
        raise LookupError(path)
    return start + len(record)


def _entry_bounds(content: bytes, digest_size: int) -> Iterator[tuple[int, int]]:
    magic, version, count = _HEADER.unpack_from(content)
    if magic != b"DIRC" or version != _VERSION:
        raise ValueError("not an index of version 2")
    fixed = _STAT.size + digest_size + 2
    start = _HEADER.size
    for _ in range(count):
        # A name is followed by one to eight NULs, so that an entry is a multiple of eight bytes long.
        end = start + ((content.index(0, start + fixed) - start + 8) & ~7)
        # Flags besides the length of the name: assumed to be unchanged, a side of a conflict, not checked out.
        if content[start + fixed - 2] & 0xF0:
            raise ValueError("an entry with flags")
        yield start, end
        start = end


def _record(path: bytes, side: Side, on_disk: os.stat_result | None) -> bytes:
    mode, oid = side
    flags = min(len(path), _LONGEST_NAME).to_bytes(2, "big")
    record = b"".join((_stat(_NUMBERS[mode], on_disk), bytes.fromhex(oid), flags, path))
    return record + b"\0" * (8 - len(record) % 8)


def _stat(mode: int, on_disk: os.stat_result | None) -> bytes:
    if on_disk is None:
        return _STAT.pack(0, 0, 0, 0, 0, 0, mode, 0, 0, 0)
    changed, modified = (divmod(time, 10**9) for time in (on_disk.st_ctime_ns, on_disk.st_mtime_ns))
    facts = (*changed, *modified, on_disk.st_dev, on_disk.st_ino, mode, on_disk.st_uid, on_disk.st_gid, on_disk.st_size)
    return _STAT.pack(*(fact & 0xFFFFFFFF for fact in facts))


def _digest(pieces: Iterable[Piece], digest_size: int) -> bytes:
    digest = hashlib.new("sha1" if digest_size == 20 else "sha256", usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
