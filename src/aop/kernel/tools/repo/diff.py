"""Tool `repo.diff`: the changes of a feature as a patch, a stat or names."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import TreeId
from aop.core.paths.names import canonical_path
from aop.core.structs import copy_fields
from aop.kernel.features.trees import LARGEST_DIFF, ChangedFile, changed_files, is_at_or_below
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.ports.git import GitObjects, TreeChange


class DiffOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed list of options: no text of a caller becomes an option of git."""

    stat: bool = False
    name_only: bool = False
    context_lines: Annotated[int, Meta(ge=0, le=100)] = 3
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()


class DiffArguments(FeatureArguments, frozen=True, kw_only=True):
    options: DiffOptions = DiffOptions()


class DiffText(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    base_commit: str
    text: str
    changed_files: tuple[ChangedFile, ...]
    truncated: bool


def diff(call: Call, arguments: DiffArguments) -> Outcome:
    """Return all changes of the feature, new files included."""
    git, options = call.kernel.git, arguments.options
    paths = tuple(canonical_path(path) for path in options.paths)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    base = git.objects.tree_of(state.base_commit)
    changes = git.objects.changes(base, state.tree)
    if paths:
        changes = tuple(each for each in changes if any(is_at_or_below(each.path, path) for path in paths))
    text = _diff_text(git.objects, base, state.tree, changes, msgspec.structs.replace(options, paths=paths))
    shown = text[:LARGEST_DIFF].decode(errors="replace")
    return copy_fields(
        DiffText,
        state,
        text=call.kernel.redact.mask_secrets(shown),
        changed_files=changed_files(changes),
        truncated=len(text) > LARGEST_DIFF,
    )


def _diff_text(
    objects: GitObjects, base: TreeId, tree: TreeId, changes: tuple[TreeChange, ...], options: DiffOptions
) -> bytes:
    names = [each.path for each in changes]
    if options.name_only or not names:
        return "".join(f"{name}\n" for name in names).encode()
    if options.stat:
        return objects.diff_stat(base, tree, paths=options.paths).encode()
    return objects.diff(base, tree, context_lines=options.context_lines, paths=options.paths)


TOOLS = (
    Tool(
        name="repo.diff",
        summary="Show all changes of the feature against its base, as a patch, a stat or names.",
        arguments=DiffArguments,
        output=DiffText,
        roles=READERS,
        run=diff,
    ),
)
