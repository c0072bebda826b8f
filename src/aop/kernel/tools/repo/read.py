"""Tools that show a feature's tree, and the one that makes its worktree."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import FileNotFound
from aop.core.ids import TreeId
from aop.core.paths.names import canonical_path
from aop.core.redaction.redactor import Redactor
from aop.kernel.features.worktree_extras import allocate, provide
from aop.kernel.features.worktree_hold import held_feature, note_quarantined
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, READERS
from aop.kernel.ports.git import FileMode, GitObjects, TreeChange
from aop.kernel.record.port import Transaction

LARGEST_READ = 1024 * 1024
LARGEST_DIFF = 4 * 1024 * 1024


class ChangedFile(Struct, frozen=True, kw_only=True):
    path: str
    kind: Literal["create", "modify", "delete"]


def changed_files(changes: tuple[TreeChange, ...]) -> tuple[ChangedFile, ...]:
    """Return changes as answers show them."""
    return tuple(msgspec.convert({"path": each.path, "kind": each.kind}, ChangedFile) for each in changes)


# --- repo.ensure_worktree ------------------------------------------------------------------------


class Worktree(Struct, frozen=True, kw_only=True):
    feature_id: str
    branch: str
    worktree_path: str
    base_commit: str
    tree: str


def ensure_worktree(call: Call, arguments: ChangeArguments) -> Outcome:
    """Make the worktree again if it is gone, make its files be the feature's tree, and set it up."""
    kernel = call.kernel
    with held_feature(kernel, arguments) as state:
        folder = kernel.git.worktrees.ensure(state.feature_id, state.branch)
        note_quarantined(call, state.feature_id, kernel.git.worktrees.show_tree(state.feature_id, state.tree))
        provide(call, state.feature_id, state.tree, folder, kernel.config().policy)

        def decide(tx: Transaction) -> Outcome:
            now = the_feature(tx, arguments)
            allocate(tx, now.feature_id, kernel.config().policy.worktree, kernel.furnisher.is_free)
            tx.append(call.event("worktree_ensured", now.feature_id, tree=now.tree))
            tx.mark_unshown("worktree", now.feature_id)
            return Worktree(
                feature_id=now.feature_id,
                branch=now.branch,
                worktree_path=now.worktree_path,
                base_commit=now.base_commit,
                tree=now.tree,
            )

        return call.commit(decide)


# --- repo.status, repo.diff, repo.read_file ------------------------------------------------------


class RepoStatus(Struct, frozen=True, kw_only=True):
    feature_id: str
    branch: str
    tree: str
    base_commit: str
    base_branch: str
    base_head: str | None
    """Where the base branch is now; it may have moved since the feature was cut."""
    porcelain: str
    changed_files: tuple[ChangedFile, ...]
    strays: tuple[str, ...]
    """What lies in the worktree without being part of the feature's tree."""


def status(call: Call, arguments: FeatureArguments) -> Outcome:
    """Tell how the worktree differs from its base and from the record."""
    git = call.kernel.git
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    on_disk = git.worktrees.status(state.feature_id, state.tree)
    base_branch = call.kernel.config().policy.worktree.base_branch
    return RepoStatus(
        feature_id=state.feature_id,
        branch=state.branch,
        tree=state.tree,
        base_commit=state.base_commit,
        base_branch=base_branch,
        base_head=git.branches.head(base_branch),
        porcelain=on_disk.porcelain,
        changed_files=changed_files(git.objects.changes(git.objects.tree_of(state.base_commit), state.tree)),
        strays=on_disk.strays,
    )


class DiffOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed list: nothing that a caller writes becomes an option of git."""

    stat: bool = False
    name_only: bool = False
    context_lines: Annotated[int, Meta(ge=0, le=100)] = 3
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()


class Diff(FeatureArguments, frozen=True, kw_only=True):
    options: DiffOptions = DiffOptions()


class DiffText(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    base_commit: str
    text: str
    changed_files: tuple[ChangedFile, ...]
    truncated: bool


def diff(call: Call, arguments: Diff) -> Outcome:
    """Show everything that the feature changes, new files included."""
    git, options = call.kernel.git, arguments.options
    paths = tuple(canonical_path(path) for path in options.paths)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    base = git.objects.tree_of(state.base_commit)
    changes = git.objects.changes(base, state.tree)
    if paths:
        changes = tuple(each for each in changes if any(at_or_below(each.path, path) for path in paths))
    text = _diff_text(git.objects, base, state.tree, changes, msgspec.structs.replace(options, paths=paths))
    shown = text[:LARGEST_DIFF].decode(errors="replace")
    return DiffText(
        feature_id=state.feature_id,
        tree=state.tree,
        base_commit=state.base_commit,
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


def at_or_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder's own, or below it."""
    return path == folder or path.startswith(f"{folder}/")


class ReadFile(FeatureArguments, frozen=True, kw_only=True):
    path: str
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=LARGEST_READ)] = LARGEST_READ


class FileText(Struct, frozen=True, kw_only=True):
    feature_id: str
    path: str
    tree: str
    oid: str
    mode: str
    size: int
    encoding: Literal["utf-8", "base64"]
    content: str
    offset: int
    truncated: bool


def read_file(call: Call, arguments: ReadFile) -> Outcome:
    """Read a file of the feature's tree, as git holds it: no link is followed, and nothing else is reachable."""
    git, path = call.kernel.git, canonical_path(arguments.path)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    entry = git.objects.entry(state.tree, path)
    named = call.kernel.redact.mask_secrets(path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        raise FileNotFound(f"The tree of `{state.feature_id}` has no file `{named}`.", path=named)
    shown = masked_bytes(git.objects.blob(entry.oid), call.kernel.redact)
    part = shown[arguments.offset : arguments.offset + arguments.limit]
    content, encoding = as_text(part)
    return msgspec.convert(
        {
            "feature_id": state.feature_id,
            "path": named,
            "tree": state.tree,
            "oid": entry.oid,
            "mode": entry.mode,
            "size": len(shown),
            "encoding": encoding,
            "content": content,
            "offset": arguments.offset,
            "truncated": arguments.offset + len(part) < len(shown),
        },
        FileText,
    )


def masked_bytes(whole: bytes, redact: Redactor) -> bytes:
    """Mask the secrets of a text before it is cut: one that is asked for in pieces is still one."""
    try:
        return redact.mask_secrets(whole.decode()).encode()
    except UnicodeDecodeError:
        return whole


def masked_names(names: Sequence[str], redact: Redactor) -> list[str]:
    """Return names as answers show them; most folders have no secret among theirs, and are looked at once."""
    return [redact.mask_secrets(name) for name in names] if redact.secrets_in("\n".join(names)) else list(names)


def as_text(part: bytes) -> tuple[str, str]:
    """Return bytes as text if they are some, and else as base64; and which of the two it is."""
    try:
        return part.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(part).decode(), "base64"


TOOLS = (
    Tool(
        name="repo.ensure_worktree",
        summary="Make the feature's worktree if it is missing, holding exactly the feature's tree.",
        arguments=ChangeArguments,
        output=Worktree,
        roles=COORDINATORS,
        run=ensure_worktree,
        mutates=True,
        idempotent=True,
    ),
    Tool(
        name="repo.status",
        summary="Show what the feature changes, and what lies in its worktree that is not part of it.",
        arguments=FeatureArguments,
        output=RepoStatus,
        roles=READERS,
        run=status,
    ),
    Tool(
        name="repo.diff",
        summary="Show everything that the feature changes against its base, as a patch, a stat or names.",
        arguments=Diff,
        output=DiffText,
        roles=READERS,
        run=diff,
    ),
    Tool(
        name="repo.read_file",
        summary="Read a file as it is in the feature's tree.",
        arguments=ReadFile,
        output=FileText,
        roles=READERS,
        run=read_file,
    ),
)
