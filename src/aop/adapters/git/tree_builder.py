"""Tree builder: makes a tree from another by a patch or by whole files."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import accumulate
from pathlib import Path

from aop.adapters.files.own_folders import held_folder
from aop.adapters.git.index.format import read_index, serialize_index
from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.objects.store import Objects
from aop.adapters.git.objects.trees import Side, leaves, side_at, splice_tree
from aop.adapters.git.process.output import bytes_of, is_plain_path, object_id
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault, PatchDoesNotApply
from aop.core.ids import ObjectId, TreeId
from aop.kernel.ports.git import FileContent, FileMode

_DOES_NOT_APPLY = 1
_FAILED = 128
# Messages of git about the machine, such as a full disk. All others are about the patch.
_BROKEN = ("fatal: ", "error: unable to create ", "error: unable to write ", "error: Unable to write ")


def apply_patch(
    neutral: GitDir, objects: Objects, tree: TreeId, patch: bytes, *, paths: AbstractSet[str], tmp: Path
) -> TreeId:
    """Write the tree that a patch makes of another; `paths` are all paths in the patch. Raises: PatchDoesNotApply."""
    digest_size = len(object_id(tree)) // 2
    before = _entries_around(objects, tree, paths)
    with held_folder(tmp) as private:
        index = private / "index"
        index.write_bytes(serialize_index(before, digest_size=digest_size))
        # The kernel has found the place of every hunk, so git need not check hunks without context.
        arguments = ("apply", "--cached", "--unidiff-zero", "--whitespace=nowarn", "-")
        ran = neutral.run(*arguments, stdin=patch, index=index, fine=(0, _DOES_NOT_APPLY, _FAILED))
        if ran.code == _FAILED and any(line.startswith(_BROKEN) for line in ran.err.splitlines()):
            raise Fault(f"`git apply` ended with {ran.code}: {neutral.clean_message(ran.err)}")
        if ran.code != 0:
            raise PatchDoesNotApply(f"The patch does not apply: {neutral.clean_message(ran.err)}")
        after = read_index(index.read_bytes(), digest_size=digest_size)
    objects.flush_names()
    changes = {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if not changes.keys() <= set(map(bytes_of, paths)):
        raise PatchDoesNotApply("Git finds a file in the patch that AOP did not find.")
    return _write_sides(objects, tree, changes, {})


def replace_files(objects: Objects, tree: TreeId, files: Mapping[str, FileContent | None]) -> TreeId:
    """Write a tree with these files replaced (None: removed)."""
    blobs: dict[ObjectId, bytes] = {}
    sides: dict[bytes, Side | None] = {}
    for path, file in files.items():
        if not is_plain_path(path):
            raise Fault(f"{path[:80]!a} is not a path that a file can have.")
        sides[bytes_of(path)] = None
        if file is not None:
            mode, content = file
            oid = id_of(object_bytes("blob", content), digest_size=len(object_id(tree)) // 2)
            blobs[oid], sides[bytes_of(path)] = content, (mode, oid)
    return _write_sides(objects, tree, sides, blobs)


def _write_sides(
    objects: Objects, tree: TreeId, sides: Mapping[bytes, Side | None], blobs: Mapping[ObjectId, bytes]
) -> TreeId:
    if not sides:
        return tree
    trees = splice_tree(objects.tree, tree, sides)
    objects.write(blobs, trees)
    return TreeId(list(trees)[-1])


def _entries_around(objects: Objects, tree: TreeId, paths: AbstractSet[str]) -> dict[bytes, Side]:
    """Return the entries of the tree at the paths, and those that could block a file there."""
    entries: dict[bytes, Side] = {}
    for path in map(bytes_of, paths):
        for part in accumulate(path.split(b"/"), lambda above, name: above + b"/" + name):
            side = side_at(objects.tree, tree, part)
            if side is not None and side[0] is not FileMode.TREE:
                entries[part] = side
            elif side is not None and part == path:
                entries.update(leaves(objects.tree, side[1], path + b"/"))
    return entries
