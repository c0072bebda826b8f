"""Trees of git: parsed, compared, and changed at some paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.process.output import file_mode, text_of
from aop.core.errors import Fault
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry


def tree_change(difference: Difference) -> TreeChange:
    """Return a difference of two trees in the shape of the kernel's port."""
    path, old, new = difference
    name = text_of(path)
    return TreeChange(path=name, old=tree_entry(name, old), new=tree_entry(name, new))


def tree_entry(path: str, side: Side | None) -> TreeEntry | None:
    """Return a side in the shape of the kernel's port."""
    return None if side is None else TreeEntry(path=path, mode=side[0], oid=side[1])


Side: TypeAlias = tuple[FileMode, ObjectId]
"""Mode and object of a name."""
Tree: TypeAlias = Mapping[bytes, Side]
ReadTree: TypeAlias = Callable[[str], Tree]
Difference: TypeAlias = tuple[bytes, Side | None, Side | None]
"""A path that is not a folder, with its old and new side."""

_SPELLED = {mode: mode.value.lstrip("0").encode() for mode in FileMode}
_MODES = {spelled: mode for mode, spelled in _SPELLED.items()}


def parse_tree(content: bytes, *, digest_size: int) -> dict[bytes, Side]:
    """Read a tree object. Raises: Fault for a damaged tree, and for a name that is repeated or impossible."""
    entries: dict[bytes, Side] = {}
    at, count = 0, 0
    try:
        while at < len(content):
            space = content.index(b" ", at)
            nul = content.index(b"\0", space)
            name = content[space + 1 : nul]
            mode = _MODES.get(content[at:space]) or file_mode(content[at:space])
            at = nul + 1 + digest_size
            entries[name] = (mode, ObjectId(content[nul + 1 : at].hex()))
            count += 1
    except ValueError as error:
        raise Fault("A tree of the repository cannot be read.") from error
    if at != len(content) or count != len(entries) or any(name in entries for name in (b"", b".", b"..")):
        raise Fault("A tree of the repository is damaged.")
    if any(b"/" in name for name in entries):
        raise Fault("A tree of the repository holds a name that is a path.")
    return entries


def side_at(read: ReadTree, root: str, path: bytes) -> Side | None:
    """Return the side of a tree at a path, or None."""
    side: Side | None = (FileMode.TREE, ObjectId(root))
    for name in path.split(b"/"):
        if side is None or side[0] is not FileMode.TREE:
            return None
        side = read(side[1]).get(name)
    return side


def differences(read: ReadTree, old: str, new: str) -> Iterator[Difference]:
    """Yield what `git diff-tree -r --raw --no-renames` lists, in no order; equal folders are not opened."""
    folders: list[tuple[bytes, str | None, str | None]] = [(b"", old, new)]
    while folders:
        above, old_folder, new_folder = folders.pop()
        if old_folder == new_folder:
            continue
        before = read(old_folder) if old_folder else {}
        after = read(new_folder) if new_folder else {}
        # Few names differ; the others are skipped at once.
        changed = [name for name, side in after.items() if before.get(name) != side]
        for name in (*changed, *(before.keys() - after.keys())):
            old_below, old_leaf = _folder_or_leaf(before.get(name))
            new_below, new_leaf = _folder_or_leaf(after.get(name))
            if old_below or new_below:
                folders.append((above + name + b"/", old_below, new_below))
            if old_leaf or new_leaf:
                yield above + name, old_leaf, new_leaf


def new_objects(read: ReadTree, root: str, others: Sequence[str]) -> Iterator[ObjectId]:
    """Yield the trees and files that none of the other trees has in the same place; a tree before it is read."""
    folders: list[tuple[str, Sequence[str]]] = [(root, others)]
    while folders:
        folder, known = folders.pop()
        if folder in known:
            continue
        yield ObjectId(folder)
        before = [read(each) for each in known]
        for name, (mode, oid) in read(folder).items():
            there = [side[1] for side in (each.get(name) for each in before) if side is not None and side[0] is mode]
            if mode is FileMode.TREE:
                folders.append((oid, there))
            elif mode is not FileMode.GITLINK and oid not in there:
                yield oid


def _folder_or_leaf(side: Side | None) -> tuple[str | None, Side | None]:
    return (side[1], None) if side is not None and side[0] is FileMode.TREE else (None, side)


def leaves(read: ReadTree, folder: str, above: bytes) -> Iterator[tuple[bytes, Side]]:
    """Yield every file below a folder, in no order."""
    folders = [(above, folder)]
    while folders:
        above, oid = folders.pop()
        for name, side in read(oid).items():
            if side[0] is FileMode.TREE:
                folders.append((above + name + b"/", side[1]))
            else:
                yield above + name, side


def splice_tree(read: ReadTree, root: str, changes: Mapping[bytes, Side | None]) -> dict[ObjectId, tuple[bytes, Tree]]:
    """Return the trees to write for changed paths (None: removed; never both file and folder), the root last."""
    made: dict[ObjectId, tuple[bytes, Tree]] = {}
    pending: dict[bytes, dict[bytes, Side | None]] = {b"": {}}
    for path, side in changes.items():
        folder, _, name = path.rpartition(b"/")
        pending.setdefault(folder, {})[name] = side
    while pending:
        # Deepest first: a folder is made after all folders below it.
        folder = max(pending, key=lambda path: path.count(b"/") + bool(path))
        here = side_at(read, root, folder) if folder else (FileMode.TREE, ObjectId(root))
        entries = dict(read(here[1])) if here is not None and here[0] is FileMode.TREE else {}
        for name, side in pending.pop(folder).items():
            if side is None:
                entries.pop(name, None)
            else:
                entries[name] = side
        whole = object_bytes("tree", tree_content(entries))
        oid = id_of(whole, digest_size=len(root) // 2)
        if entries or not folder:
            made[oid] = (whole, entries)
        if folder:
            above, _, name = folder.rpartition(b"/")
            siblings = pending.setdefault(above, {})
            if entries:
                siblings[name] = (FileMode.TREE, oid)
            else:
                siblings.setdefault(name, None)
    return made


def tree_content(entries: Tree) -> bytes:
    """Return the content of a tree object, as git writes it."""
    ordered = sorted(entries.items(), key=_sort_key)
    return b"".join([b"%s %s\0%s" % (_SPELLED[mode], name, bytes.fromhex(oid)) for name, (mode, oid) in ordered])


def leaf_before(read: ReadTree, root: str, path: bytes) -> tuple[bytes, Side] | None:
    """Return the file that an index lists right before a path. Raises: LookupError for an empty folder."""
    best: tuple[bytes, bytes, Side] | None = None
    above, oid = b"", root
    *folders, name = path.split(b"/")
    for part in (*(folder + b"/" for folder in folders), name):
        entries = read(oid)
        earlier = max((key for key in map(_sort_key, entries.items()) if key < part), default=None)
        if earlier is not None:
            best = (above, earlier.removesuffix(b"/"), entries[earlier.removesuffix(b"/")])
        side = entries.get(part.removesuffix(b"/"))
        if not part.endswith(b"/") or side is None or side[0] is not FileMode.TREE:
            break
        above, oid = above + part, side[1]
    if best is None:
        return None
    above, name, side = best
    while side[0] is FileMode.TREE:
        above += name + b"/"
        entries = read(side[1])
        if not entries:
            raise LookupError(above)
        name = max(map(_sort_key, entries.items())).removesuffix(b"/")
        side = entries[name]
    return above + name, side


def _sort_key(entry: tuple[bytes, Side]) -> bytes:
    """Return the name as git sorts it: a folder as if it ended with a slash."""
    name, (mode, _) = entry
    return name + b"/" if mode is FileMode.TREE else name
