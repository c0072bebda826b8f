"""Base moves: a feature on the base branch as it is now, whole or in conflict."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from aop.core.errors import MergeConflict
from aop.core.ids import CommitId, TreeId
from aop.core.text.counts import list_some
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.features.lifecycle import LIVING, change_status
from aop.kernel.features.work_requests import request_work
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.merges import merge
from aop.kernel.merges.conflicts import KINDS
from aop.kernel.merges.touched_paths import touched_paths_between
from aop.kernel.ports.git import ConflictedPaths, FileContent, FileMode, GitObjects
from aop.kernel.record.documents.features import FeatureState, SetAside, Status
from aop.kernel.record.port import Transaction

_PLAIN = (FileMode.FILE, FileMode.EXECUTABLE, FileMode.SYMLINK)


class BaseMove(Struct, frozen=True, kw_only=True):
    """A feature as it would be on another commit of the base branch."""

    after: FeatureState
    conflict: MergeConflict | None
    """None if everything merged cleanly."""


def is_behind(kernel: Kernel, state: FeatureState) -> bool:
    """Tell whether a feature on its way has to follow the base branch, or has a conflict with it to resolve."""
    head = kernel.git.branches.head(kernel.config().policy.worktree.base_branch)
    return state.status in LIVING and head is not None and (head != state.base_commit or state.set_aside is not None)


def ready_features_behind(kernel: Kernel) -> tuple[FeatureState, ...]:
    """Return the ready features that the base branch left behind: each is tried against it when it has moved."""
    head = kernel.git.branches.head(kernel.config().policy.worktree.base_branch)
    with kernel.record.read() as view:
        ready = [state for state in view.all(FeatureState) if state.status is Status.READY_TO_MERGE]
    return tuple(state for state in ready if head is not None and state.base_commit != head)


def write_commit(kernel: Kernel, state: FeatureState, message: str = "") -> CommitId:
    """Write the feature's tree as a commit on its base, at the time of its last change."""
    when = datetime.fromisoformat(state.last_updated)
    text = merge.commit_message(message, state, None)
    return kernel.git.objects.commit(state.tree, [state.base_commit], text, when=when)


def whole_work(state: FeatureState) -> FeatureState:
    """Return a feature as it was before a conflict set a part of its work aside."""
    aside = state.set_aside
    if aside is None:
        return state
    return msgspec.structs.replace(state, base_commit=aside.base_commit, tree=aside.tree, set_aside=None)


def conflict_with(kernel: Kernel, state: FeatureState, base: CommitId) -> MergeConflict | None:
    """Return the conflict of a feature with a commit of the base branch; git is asked only if both can meet."""
    if base == state.base_commit or _keep_apart(kernel.git.objects, state, base):
        return None
    return move_onto(kernel, state, base).conflict


def _keep_apart(objects: GitObjects, state: FeatureState, base: CommitId) -> bool:
    """Tell whether a feature touches nothing that the base branch changed since it was cut."""
    old = objects.tree_of(state.base_commit)
    own = touched_paths_between(objects, old, state.tree)
    is_apart = not own.meets(touched_paths_between(objects, old, objects.tree_of(base)))
    # After a reset of the base branch, a merge brings back what it left behind.
    return is_apart and objects.is_ancestor(state.base_commit, base)


def conflict_now(kernel: Kernel, state: FeatureState) -> MergeConflict | None:
    """Return the conflict of a feature's whole work with the base branch as it is now. Raises: BaseBranchUnusable."""
    return conflict_with(kernel, whole_work(state), merge.base_head(kernel, kernel.config()))


def conflict_before_merge(kernel: Kernel, state: FeatureState) -> MergeConflict | None:
    """Return the conflict of a ready feature with the base branch as it is now. Raises: BaseBranchUnusable."""
    return conflict_now(kernel, state) if state.status is Status.READY_TO_MERGE else None


def move_onto(kernel: Kernel, state: FeatureState, base: CommitId) -> BaseMove:
    """Return the feature on another base; of files in conflict it has the base's version. Raises: ProtectedPath."""
    objects, conflict = kernel.git.objects, None
    if _keep_apart(objects, state, base):
        tree = _with_changes(objects, state, objects.tree_of(base))
    else:
        tree, conflict = _merged_tree(kernel, state, base)
    merge.refuse_submodules(objects, base, tree)
    gates = reset_verdicts(state.gates)
    after = msgspec.structs.replace(state, base_commit=base, tree=tree, gates=gates, branch_commit=None)
    return BaseMove(after=after, conflict=conflict)


def _with_changes(objects: GitObjects, state: FeatureState, base: TreeId) -> TreeId:
    """Return the base's tree with the feature's changes; git need not be asked where the two keep apart."""
    changes = objects.changes(objects.tree_of(state.base_commit), state.tree)
    new = {change.path: change.new for change in changes}
    return objects.tree_with(
        base, {path: None if entry is None else (entry.mode, objects.blob(entry.oid)) for path, entry in new.items()}
    )


def _merged_tree(kernel: Kernel, state: FeatureState, base: CommitId) -> tuple[TreeId, MergeConflict | None]:
    git = kernel.git
    try:
        merged = git.merges.merge(base, merge.work_of(state))
    except MergeConflict as unrelated:
        unrelated.facts["feature_id"] = state.feature_id
        return git.objects.tree_of(base), unrelated
    if not isinstance(merged, ConflictedPaths):
        return _unless_misled(kernel, state, base, merged.tree, None)
    conflict = merge.merge_conflict(git.objects, merged, state)
    tree = _without_conflicts(git.objects, merged, git.objects.tree_of(base))
    return _unless_misled(kernel, state, base, tree, conflict)


def _unless_misled(
    kernel: Kernel, state: FeatureState, base: CommitId, tree: TreeId, conflict: MergeConflict | None
) -> tuple[TreeId, MergeConflict | None]:
    """Return a merged tree, or the base's with a conflict if git followed a renamed file to a guarded path."""
    objects, guarded = kernel.git.objects, guarded_areas_of(kernel.config().policy)
    old, new = objects.tree_of(state.base_commit), objects.tree_of(base)
    paths = {change.path for change in objects.changes(new, tree) if guarded.guard_of(change.path)}
    # What the feature changed itself was judged when it was patched.
    misled = sorted(paths.difference(change.path for change in objects.changes(old, state.tree))) if paths else []
    if not misled:
        return tree, conflict
    where = f"`{state.feature_id}` changes a file that the base branch moved to the guarded path `{misled[0]}`."
    return new, conflict or MergeConflict(where, feature_id=state.feature_id, paths=[], conflicts=[])


def _without_conflicts(objects: GitObjects, merged: ConflictedPaths, base: TreeId) -> TreeId:
    """Return the merged tree with the base's version of each file in conflict; the base's tree where names moved."""
    files: dict[str, FileContent | None] = {}
    for path, stages in merged.stages.items():
        entry, left = objects.entry(base, path), objects.entry(merged.tree, path)
        is_plain = all(each is None or each.mode in _PLAIN for each in (entry, left))
        # Git invents names (`a~main`) where a file meets a folder, and follows files that were renamed.
        if not is_plain or stages not in KINDS or (entry is None) is (2 in stages):
            return base
        files[path] = None if entry is None else (entry.mode, objects.blob(entry.oid))
    return objects.tree_with(merged.tree, files) if files else base


def set_back(state: FeatureState, move: BaseMove, why: str) -> FeatureState:
    """Return a feature that conflicts with its new base, with its whole work noted, in the status of a builder's."""
    aside = SetAside(tree=state.tree, base_commit=state.base_commit, paths=conflict_paths(move.conflict))
    after = msgspec.structs.replace(move.after, set_aside=aside)
    if state.status is Status.BLOCKED:
        was_further = state.blocked_from in (Status.QA, Status.READY_TO_MERGE)
        return msgspec.structs.replace(after, blocked_from=Status.BUILDING) if was_further else after
    if state.status is Status.PLANNING:
        return after
    return msgspec.structs.replace(after, status=Status.BUILDING, status_reason=why)


def conflict_paths(conflict: MergeConflict | None) -> tuple[str, ...]:
    """Return the paths that a conflict names, as valid UTF-8."""
    paths = conflict.facts.get("paths", ()) if conflict is not None else ()
    return tuple(str(path) for path in paths) if isinstance(paths, list | tuple) else ()


def conflict_reason(conflict: MergeConflict) -> str:
    """Return a conflict as the reason of a feature's status."""
    named = list_some([f"`{path}`" for path in conflict_paths(conflict)])
    return f"{conflict.message}{f' ({named})' if named else ''}"[:900]


def send_back(tx: Transaction, call: Call, state: FeatureState, conflict: MergeConflict) -> MergeConflict:
    """Return a ready feature that conflicts to `building`, for the next run; return the refusal that says so."""
    why = conflict_reason(conflict)
    after = msgspec.structs.replace(state, status=Status.BUILDING, status_reason=why)
    change_status(tx, call, state, after)
    request_work(tx, call, state.feature_id, again=True)
    return conflict
