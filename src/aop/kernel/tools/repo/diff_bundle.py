"""Tool `repo.diff_bundle`: the diff file by file, with the newest gate runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.features.trees import LARGEST_DIFF, ChangedFile
from aop.kernel.gates.summaries import RunSummary, latest_runs
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.patches.diff_parts import DiffPart, parts_by_path
from aop.kernel.ports.git import FileMode, TreeChange

LARGEST_FILE_DIFF = 1024 * 1024
"""The limit for one file, so that a large one leaves room for the others."""


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


class DiffBundle(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    tree: str
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


def diff_bundle(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the diff file by file, with counts, and the newest gate runs."""
    git, mask = call.kernel.git, call.kernel.redact.mask_secrets
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        gates = latest_runs(call.kernel, view, state)
    base = git.objects.tree_of(state.base_commit)
    changes = git.objects.changes(base, state.tree)
    parts = parts_by_path(git.objects.diff(base, state.tree), [change.path for change in changes])
    lines, files, room = list[str](), list[TouchedFile](), LARGEST_DIFF
    for change in changes:
        whole = mask(parts[change.path].text.decode(errors="replace")).split("\n")[:-1]
        shown = _first_lines(whole, min(room, LARGEST_FILE_DIFF))
        room -= sum(map(len, shown)) + len(shown)
        files.append(
            _touched_file(change, parts[change.path], lines, shown=len(shown), left_out=len(whole) - len(shown))
        )
        lines += shown
    return copy_fields(
        DiffBundle,
        state,
        diff_stat=mask(git.objects.diff_stat(base, state.tree)),
        diff="".join(f"{line}\n" for line in lines),
        truncated=any(file.left_out_lines for file in files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
        files=tuple(files),
        gates=gates,
    )


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
    )


TOOLS = (
    Tool(
        name="repo.diff_bundle",
        summary="Show the feature for review: every file with its diff and counts, and the newest gates.",
        arguments=FeatureArguments,
        output=DiffBundle,
        roles=READERS,
        run=diff_bundle,
    ),
)
