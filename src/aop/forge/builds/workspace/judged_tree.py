"""Judged tree: a change of a build's files, judged like a patch and then stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from aop.core.errors import InvalidPatch, Json, ProtectedPath, VersionConflict
from aop.core.ids import TreeId
from aop.core.paths.names import Area, fold_path
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.workspace.projection import SHOWN_FOLDER
from aop.kernel.config.guarded_areas import STEERS_TESTS, guarded_areas_of
from aop.kernel.config.policy import Policy
from aop.kernel.features.lifecycle import require_status, store_feature
from aop.kernel.features.opened_paths import opened_paths
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, Kernel, feature_named
from aop.kernel.locks.leases import read_clock
from aop.kernel.patches.checks import judge_territory, refuse_added_lines
from aop.kernel.patches.proposals import judge_tree
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths, with_fences
from aop.kernel.ports.git import FileContent, GitObjects, TreeChange
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Snapshot, Transaction

LARGEST_FILE = 500 * 1024
_BINARY_BYTES = 8000

RUNNERS = tuple(
    Area(f"**/{name}")
    for name in (
        *("pytest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-info/**", "*.dist-info/**"),
        *("node_modules", "node_modules/**", ".venv", ".venv/**"),
    )
)
"""Files that take the place of the program which runs the tests: a build creates none of them without a grant."""


class JudgedTree(Struct, frozen=True, kw_only=True):
    """A new tree of a build that every rule allows."""

    before: FeatureState
    tree: TreeId
    changes: tuple[TreeChange, ...]
    locks: tuple[str, ...]

    @property
    def after(self) -> FeatureState:
        """Return the build with the new tree."""
        return msgspec.structs.replace(self.before, tree=self.tree)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that change."""
        return tuple(change.path for change in self.changes)


def judged_files(call: Call, state: FeatureState, files: Mapping[str, FileContent | None]) -> JudgedTree:
    """Write the tree of a build with these files, and judge it; each rule has its refusal."""
    # Before any object is written: a refused path leaves nothing behind.
    with call.kernel.record.read() as view:
        opened = _opened(call.kernel, view, state, files)
    judge_territory(files, guarded_areas_of(call.kernel.config().policy, opened))
    return judged_tree(call, state, call.kernel.git.objects.tree_with(state.tree, files))


def judged_tree(call: Call, state: FeatureState, tree: TreeId) -> JudgedTree:
    """Judge a tree that is to follow that of a build; each rule has its refusal."""
    kernel, config = call.kernel, call.kernel.config()
    require_status(state, Status.BUILDING, to="be changed")
    changes = kernel.git.objects.changes(state.tree, tree)
    paths = [change.path for change in changes]
    needed = locks_for_paths(paths, config.policy)
    with kernel.record.read() as view:
        opened = _opened(kernel, view, state, paths)
        check_unbroken(view, state, needed, read_clock(kernel.clock))
    judge_tree(kernel, tree, changes, config, opened)
    for change in changes:
        _judge_content(kernel, change, config.policy)
    return JudgedTree(before=state, tree=tree, changes=changes, locks=needed)


def store_tree(tx: Transaction, call: Call, cycle: BuildCycle, judged: JudgedTree) -> FeatureState:
    """Store a judged tree as that of the build, unless it changed since. Raises: VersionConflict."""
    state, kernel = feature_named(tx, cycle.build_id), call.kernel
    if state.tree != judged.before.tree or tx.get(BuildCycle, cycle.build_id) != cycle:
        raise VersionConflict(f"The build `{cycle.build_id}`", expected=judged.before.version, current=state.version)
    if judged.tree == state.tree:
        return state
    fenced = with_fences(state, check_unbroken(tx, state, judged.locks, read_clock(kernel.clock)))
    after = msgspec.structs.replace(fenced, tree=judged.tree, gates=reset_verdicts(state.gates), set_aside=None)
    stored = store_feature(tx, state, after, now=kernel.now())
    trees = {"tree": stored.tree, "before": state.tree}
    tx.append(call.event("patch_applied", stored.feature_id, **trees, files=len(judged.changes)))
    for change in judged.changes:
        facts: dict[str, Json] = {"build_id": cycle.build_id, "phase": cycle.current.number, "change": change.kind}
        tx.append(call.event("file_generated", stored.feature_id, path=kernel.redact(change.path), **facts))
    tx.mark_unshown("worktree", stored.feature_id)
    return stored


def _opened(kernel: Kernel, view: Snapshot, state: FeatureState, paths: Iterable[str]) -> frozenset[str]:
    """Return the guarded paths that this build may change; refuse the shown folder. Raises: ProtectedPath."""
    policy, objects = kernel.config().policy, kernel.git.objects
    baseline = objects.tree_of(state.base_commit)
    names = list(paths)
    for path in names:
        _refuse_shown_folder(objects, baseline, path)
    created = frozenset(path for path in names if may_create(objects, baseline, path, policy))
    return opened_paths(view, state.feature_id) | created


def _refuse_shown_folder(objects: GitObjects, baseline: TreeId, path: str) -> None:
    root = path.partition("/")[0]
    # A project may have a folder `forge` of its own.
    is_twin = fold_path(root) == fold_path(SHOWN_FOLDER) and objects.entry(baseline, root) is None
    if root == SHOWN_FOLDER or is_twin:
        why = "it shows what the record holds, and is never part of the product"
        raise ProtectedPath(f"`{path}` may not be changed: {why}.", path=path, reason=why)


def may_create(objects: GitObjects, baseline: TreeId, path: str, policy: Policy) -> bool:
    """Tell whether a path steers the tests, and the baseline lacks it: a new product needs its own."""
    areas = guarded_areas_of(policy)
    steers = areas.guard_of(path) == STEERS_TESTS or areas.holds_test_settings(path)
    if not steers or any(area.covers(path, fold=True) for area in (*RUNNERS, *areas.linked)):
        return False
    return objects.entry(baseline, path) is None


def _judge_content(kernel: Kernel, change: TreeChange, policy: Policy) -> None:
    """Refuse files that are too large or bytes that are not text, and secrets. Raises: InvalidPatch, SecretDetected."""
    if change.new is None:
        return
    objects, shown = kernel.git.objects, kernel.redact(change.path)
    size = objects.blob_size(change.new.oid)
    if size > LARGEST_FILE:
        raise InvalidPatch(
            f"`{shown}` would have {size:,} bytes, and a file has at most {LARGEST_FILE:,}.",
            hint="Split the file, or leave generated data out of the repository.",
            path=shown,
            reason="too_large",
        )
    content = objects.blob(change.new.oid)
    if b"\0" in content[:_BINARY_BYTES] and not policy.patch_policy.allow_binary:
        raise InvalidPatch(f"`{shown}` is not text.", path=shown, reason="binary")
    old = b"" if change.old is None else objects.blob(change.old.oid)
    refuse_added_lines(change.path, old, content, kernel.redact)
