"""File tree: the changed files of a feature, below their folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from aop.web.pages.feature.diff.diff_files import FileDiff


class TreeRow(Struct, frozen=True, kw_only=True):
    """A folder or a file of the tree, in the order in which they are shown."""

    name: str
    """The part of the path below the folder above it."""
    depth: int
    diff: FileDiff | None = None
    """Of a file: its diff."""


def tree_rows(files: Sequence[FileDiff], above: str = "", depth: int = 0) -> Iterator[TreeRow]:
    """Return the rows of a tree; folders that hold nothing but one folder are one row with it."""
    folders: dict[str, list[FileDiff]] = {}
    for each in files:
        folder, slash, _ = each.file.path.removeprefix(above).partition("/")
        if slash:
            folders.setdefault(folder, []).append(each)
    for folder, inside in folders.items():
        name = f"{folder}/"
        while len(parts := {_folder(each, above + name) for each in inside}) == 1 and parts != {""}:
            name += f"{parts.pop()}/"
        yield TreeRow(name=name, depth=depth)
        yield from tree_rows(inside, above + name, depth + 1)
    for each in files:
        name = each.file.path.removeprefix(above)
        if "/" not in name:
            yield TreeRow(name=name, depth=depth, diff=each)


def _folder(each: FileDiff, above: str) -> str:
    folder, slash, _ = each.file.path.removeprefix(above).partition("/")
    return folder if slash else ""
