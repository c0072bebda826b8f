"""Conflict reports: both sides of a conflict, for the builder who resolves it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import MergeConflict
from aop.core.ids import CommitId, FeatureId, TreeId
from aop.core.redaction.redactor import mask_json
from aop.kernel.gateway.calls import Kernel
from aop.kernel.merges.base_moves import conflict_paths
from aop.kernel.ports.git import GitObjects
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot

LONGEST_DIFF = 60_000
MOST_FEATURES = 5


class MergedFeature(Struct, frozen=True, kw_only=True):
    """A merged feature that changed the files in conflict."""

    feature_id: FeatureId
    summary: str
    """The purpose of its plan."""
    plan: Mapping[str, Any]
    """Its accepted plan."""


class ConflictReport(Struct, frozen=True, kw_only=True):
    """The conflict of a feature with the base branch."""

    message: str
    """The conflict, as a sentence."""
    old_base: str
    """The commit that the feature was made on."""
    tree: str
    """The feature's whole work before; it stays reachable below `refs/aop/undone/`."""
    paths: tuple[str, ...]
    """The files in conflict; empty if the two conflict in names alone."""
    conflicts: tuple[Mapping[str, Any], ...]
    """For each file what happened to it, and the lines of both sides: `ours` is the base branch."""
    own_diff: str
    """The feature's own changes of these files, which are to be made again on the new base; secrets are masked."""
    base_diff: str
    """The changes of the base branch to these files since the feature was cut; secrets are masked."""
    merged_features: tuple[MergedFeature, ...]
    """The features whose merge changed these files."""


def report_conflict(
    kernel: Kernel, view: Snapshot, whole: FeatureState, base: CommitId, conflict: MergeConflict
) -> ConflictReport:
    """Return both sides of a conflict: diffs, places, and the plans of the features that were merged meanwhile."""
    objects, mask = kernel.git.objects, kernel.redact.mask_secrets
    paths, old = conflict_paths(conflict), objects.tree_of(whole.base_commit)
    touched = paths or tuple(change.path for change in objects.changes(old, whole.tree))
    found: Any = mask_json(conflict.facts.get("conflicts", []), mask)
    return ConflictReport(
        message=conflict.message,
        old_base=whole.base_commit,
        tree=whole.tree,
        paths=paths,
        conflicts=tuple(found),
        own_diff=_cut(mask(_diff_text(objects, old, whole.tree, touched))),
        base_diff=_cut(mask(_diff_text(objects, old, objects.tree_of(base), touched))),
        merged_features=tuple(_merged_since(kernel, view, whole, base, frozenset(touched)))[:MOST_FEATURES],
    )


def _diff_text(objects: GitObjects, old: TreeId, new: TreeId, paths: Sequence[str]) -> str:
    return objects.diff(old, new, paths=paths).decode("utf-8", "replace")


def _cut(text: str) -> str:
    """Return the begin of a masked text; cut before, a part of a secret would not be recognised."""
    return text if len(text) <= LONGEST_DIFF else f"{text[:LONGEST_DIFF]}\n[cut after {LONGEST_DIFF} characters]\n"


def _merged_since(
    kernel: Kernel, view: Snapshot, whole: FeatureState, base: CommitId, paths: frozenset[str]
) -> Iterator[MergedFeature]:
    objects = kernel.git.objects
    for state in view.all(FeatureState):
        proof = state.evidence.merge
        accepted = view.get(AcceptedPlan, state.feature_id)
        if state.status is not Status.MERGED or proof is None or accepted is None:
            continue
        is_new = objects.is_ancestor(proof.merge_commit, base)
        is_new = is_new and not objects.is_ancestor(proof.merge_commit, whole.base_commit)
        changes = objects.changes(objects.tree_of(state.base_commit), state.tree) if is_new else ()
        if any(change.path in paths for change in changes):
            plan: Any = mask_json(msgspec.to_builtins(accepted.plan), kernel.redact.mask_secrets)
            yield MergedFeature(feature_id=state.feature_id, summary=str(plan["summary"]), plan=plan)
