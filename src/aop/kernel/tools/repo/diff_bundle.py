"""Tool `repo.diff_bundle`: the diff file by file, with the newest gate runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.core.ids import ObjectId, TreeId
from aop.core.structs import copy_fields
from aop.kernel.features.tree.known_trees import TreeFacts, matching_trees, trees_of
from aop.kernel.features.tree.viewed_files import change_id, viewed_marks
from aop.kernel.features.trees import LARGEST_DIFF, ChangedFile
from aop.kernel.gates.summaries import RunSummary, latest_runs
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.patches.diff_parts import DiffPart, parts_by_path
from aop.kernel.ports.git import FileMode, TreeChange

LARGEST_FILE_DIFF = 1024 * 1024
"""The limit for one file, so that a large one leaves room for the others."""


LONGEST_DIFF_LINE = 20_000
"""The first part of a longer line is shown."""


class CutLine(Struct, frozen=True, kw_only=True):
    """A line of the diff that is too long to be shown whole."""

    line: int
    """The line of `diff`, counted from 0."""
    length: int
    """The number of characters that it has, with its mark."""


class TouchedFile(ChangedFile, frozen=True, kw_only=True):
    """One path that differs between base and tree; a renamed file is deleted and created."""

    old_mode: FileMode | None
    new_mode: FileMode | None
    binary: bool
    added: int
    removed: int
    first_line: int
    """The line of `diff` at which its part begins, counted from 0."""
    shown_lines: int
    left_out_lines: int
    """How many further lines its part has; `repo.diff` with this path shows them."""
    cut_lines: tuple[CutLine, ...] = ()
    """The lines of which only the first part is shown; `repo.diff` with this path shows them."""
    change: str = ""
    """The name of this change of this file: another content of either side is another change."""
    viewed_by: str = ""
    """The person who marked this change as viewed; empty if nobody did."""


TreeName = Annotated[str, Meta(pattern="^([0-9]{1,6}|[0-9a-f]{7,64})$")]


class DiffBundleArguments(FeatureArguments, frozen=True, kw_only=True):
    old: TreeName | None = None
    """The number or id of a tree of the feature, as `feature.trees` lists them; null for the base."""
    new: TreeName | None = None
    """The tree that is compared with it; null for the tree that the feature has now."""


class DiffBundle(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    tree: str
    """The tree that the diff leads to."""
    base_commit: str
    diff_stat: str
    diff: str
    """The parts of all files, one below the other."""
    truncated: bool
    added: int
    removed: int
    files: tuple[TouchedFile, ...]
    gates: Mapping[str, RunSummary]
    """The newest run of each mode; one that is not `current` proves nothing about this tree."""


def diff_bundle(call: Call, arguments: DiffBundleArguments) -> Outcome:
    """Return the diff file by file, with counts, and the newest gate runs. Raises: InvalidArguments."""
    git, mask = call.kernel.git, call.kernel.redact.mask_secrets
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        gates = latest_runs(call.kernel, view, state)
        marks = viewed_marks(view, state.feature_id)
        known = trees_of(git.objects, view, state) if arguments.old or arguments.new else ()
    base = _tree(arguments.old, known) or git.objects.tree_of(state.base_commit)
    tree = _tree(arguments.new, known) or state.tree
    changes = git.objects.changes(base, tree)
    parts = parts_by_path(git.objects.diff(base, tree), [change.path for change in changes])
    lines, files, room = list[str](), list[TouchedFile](), LARGEST_DIFF
    for change in changes:
        whole = mask(parts[change.path].text.decode(errors="replace")).split("\n")[:-1]
        shown = _first_lines([line[:LONGEST_DIFF_LINE] for line in whole], min(room, LARGEST_FILE_DIFF))
        room -= sum(map(len, shown)) + len(shown)
        touched = _touched_file(change, parts[change.path], lines, shown=len(shown), left_out=len(whole) - len(shown))
        mark = marks.get(touched.change)
        cut = tuple(
            CutLine(line=len(lines) + at, length=len(line))
            for at, line in enumerate(whole[: len(shown)])
            if len(line) > LONGEST_DIFF_LINE
        )
        files.append(msgspec.structs.replace(touched, viewed_by=mark.by if mark else "", cut_lines=cut))
        lines += shown
    return copy_fields(
        DiffBundle,
        state,
        tree=tree,
        diff_stat=mask(git.objects.diff_stat(base, tree)),
        diff="".join(f"{line}\n" for line in lines),
        truncated=any(file.left_out_lines or file.cut_lines for file in files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
        files=tuple(files),
        gates=gates,
    )


def _tree(wish: str | None, known: tuple[TreeFacts, ...]) -> TreeId | None:
    if wish is None:
        return None
    trees = matching_trees(wish, known)
    if len(trees) != 1:
        raise InvalidArguments(
            f"`{wish}` names {'no' if not trees else 'more than one'} tree of this feature.",
            hint="`feature.trees` lists them, with their numbers.",
            tool="repo.diff_bundle",
        )
    return TreeId(ObjectId(trees[0]))


def _first_lines(lines: list[str], room: int) -> list[str]:
    return lines[: bisect_right(list(accumulate(len(line) + 1 for line in lines)), room)]


def _touched_file(change: TreeChange, part: DiffPart, before: list[str], *, shown: int, left_out: int) -> TouchedFile:
    return copy_fields(
        TouchedFile,
        part,
        path=change.path,
        kind=change.kind,
        old_mode=change.old.mode if change.old else None,
        new_mode=change.new.mode if change.new else None,
        first_line=len(before),
        shown_lines=shown,
        left_out_lines=left_out,
        change=change_id(change),
    )


TOOLS = (
    Tool(
        name="repo.diff_bundle",
        summary="Show the feature for review: every file with its diff and counts, and the newest gates.",
        arguments=DiffBundleArguments,
        output=DiffBundle,
        roles=READERS,
        run=diff_bundle,
    ),
)
