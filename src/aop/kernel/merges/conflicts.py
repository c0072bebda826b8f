"""Conflicts of a merge, as data for the agent or person who resolves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import CommitId
from aop.kernel.ports.git import ConflictedPaths, FileMode, GitObjects, TreeEntry

MOST_FILES = 50
MOST_HUNKS = 20
LONGEST_SIDE = 2_000
LARGEST_FILE = 1024 * 1024

KINDS: Mapping[tuple[int, ...], str] = {
    (1, 2, 3): "both_changed",
    (2, 3): "both_added",
    (1, 2): "changed_by_ours_deleted_by_theirs",
    (1, 3): "deleted_by_ours_changed_by_theirs",
}
"""By the sides that have the path; any other combination is a rename, or a file against a folder."""


class ConflictHunk(Struct, frozen=True, kw_only=True):
    """One place where both sides changed the same lines; a side that is too long is cut."""

    line: int
    """First line in the file as `git merge` would leave it, with conflict markers."""
    base: str
    """The common text of both sides."""
    ours: str
    """The text on the base branch."""
    theirs: str
    """The text in the feature."""


def conflict_facts(objects: GitObjects, merged: ConflictedPaths) -> list[Json]:
    """Return the conflicts of each file, within the limits for files and places."""
    facts: list[Json] = []
    ours, theirs = merged.between
    for path, stages in list(merged.stages.items())[:MOST_FILES]:
        text = _text_of(objects, objects.entry(merged.tree, path)) if len(stages) > 1 else ""
        hunks = list(hunks_in(text, ours=ours, theirs=theirs))
        facts.append(
            {
                "path": path,
                "kind": KINDS.get(stages, "names"),
                "hunks": [msgspec.to_builtins(hunk) for hunk in hunks[:MOST_HUNKS]],
                "left_out_hunks": max(0, len(hunks) - MOST_HUNKS),
            }
        )
    return facts


def _text_of(objects: GitObjects, entry: TreeEntry | None) -> str:
    """Return the text of a file, or an empty one for anything else."""
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        return ""
    return objects.blob(entry.oid).decode("utf-8", "replace") if objects.blob_size(entry.oid) <= LARGEST_FILE else ""


def hunks_in(text: str, *, ours: CommitId, theirs: CommitId) -> Iterator[ConflictHunk]:
    """Parse the conflict markers of git; the outer ones name the two commits, so content cannot fake them by chance."""
    side, begun = "", 0
    sides: dict[str, list[str]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.removesuffix("\r")
        if bare == f"<<<<<<< {ours}":
            side, begun, sides = "ours", number, {"base": [], "ours": [], "theirs": []}
        elif side == "ours" and bare.startswith("|||||||"):
            side = "base"
        elif side == "base" and bare == "=======":
            side = "theirs"
        elif side == "theirs" and bare == f">>>>>>> {theirs}":
            yield ConflictHunk(line=begun, **{name: _cut("".join(lines)) for name, lines in sides.items()})
            side = ""
        elif side:
            sides[side].append(f"{line}\n")


def _cut(side: str) -> str:
    return side if len(side) <= LONGEST_SIDE else f"{side[:LONGEST_SIDE]}\n[cut after {LONGEST_SIDE} characters]\n"
