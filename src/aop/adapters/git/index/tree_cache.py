"""Tree cache of an index: git's notes about its folders (the `TREE` extension).

They hold the size and tree of each folder and of the whole index, so that git need not build the trees again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aop.adapters.git.objects.trees import Difference, ReadTree, side_at
from aop.core.ids import ObjectId, TreeId


class _Folder:
    __slots__ = ("below", "count", "oid")

    def __init__(self, count: int, oid: str) -> None:
        self.count = count
        self.oid = oid
        self.below: dict[bytes, _Folder] = {}


def cached_tree(notes: bytes, *, digest_size: int) -> TreeId | None:
    """Return the tree of the whole index; None if an entry was changed since it was noted."""
    counts, _, rest = notes.partition(b"\n")
    is_whole = counts[:1] == b"\0" and counts[1:2].isdigit()
    return TreeId(ObjectId(rest[:digest_size].hex())) if is_whole else None


def update_notes(
    notes: bytes, differences: Iterable[Difference], *, read: ReadTree, tree: TreeId, digest_size: int
) -> bytes:
    """Return the notes for an index that becomes another tree. Raises: LookupError if the notes are incomplete."""
    root = _parse(notes, digest_size)
    touched = {b""}
    for path, old, new in differences:
        folder, above = root, b""
        folder.count += (new is not None) - (old is not None)
        for name in path.split(b"/")[:-1]:
            folder = folder.below.setdefault(name, _Folder(0, ""))
            folder.count += (new is not None) - (old is not None)
            above += b"/" + name
            touched.add(above)
    # Deepest first.
    for path in sorted(touched, reverse=True):
        _update_folder(root, path, read, tree)
    return b"".join(_serialize(root))


def _update_folder(root: _Folder, path: bytes, read: ReadTree, tree: TreeId) -> None:
    if not path:
        root.oid = tree
        return
    *above, name = path[1:].split(b"/")
    parent = root
    for part in above:
        parent = parent.below[part]
    side = side_at(read, tree, path[1:])
    if parent.below[name].count == 0:
        del parent.below[name]
    elif side is None:
        raise LookupError(path)
    else:
        parent.below[name].oid = side[1]


def _parse(notes: bytes, digest_size: int) -> _Folder:
    above = _Folder(0, "")
    # Folders still to be read, with the number of siblings that their parent named.
    expected = [(above, 1)]
    at = 0
    while expected:
        parent, left = expected.pop()
        if left > 1:
            expected.append((parent, left - 1))
        nul = notes.index(0, at)
        newline = notes.index(b"\n", nul)
        count, subfolders = map(int, notes[nul + 1 : newline].split(b" "))
        folder = parent.below[notes[at:nul]] = _Folder(count, notes[newline + 1 : newline + 1 + digest_size].hex())
        if count < 0:
            raise LookupError(notes[at:nul])
        if subfolders:
            expected.append((folder, subfolders))
        at = newline + 1 + digest_size
    return above.below[b""]


def _serialize(root: _Folder) -> Iterator[bytes]:
    folders = [(b"", root)]
    while folders:
        name, folder = folders.pop()
        yield b"%s\0%d %d\n%s" % (name, folder.count, len(folder.below), bytes.fromhex(folder.oid))
        # Git sorts them by length, then by name.
        folders += sorted(folder.below.items(), key=lambda item: (len(item[0]), item[0]), reverse=True)
