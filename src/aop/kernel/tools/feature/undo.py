"""Tools `feature.trees`, `feature.undo` and `feature.redo`: steps between trees."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Fault, FileNotFound, InvalidArguments
from aop.core.ids import ObjectId, TreeId
from aop.core.structs import copy_fields
from aop.kernel.features.lifecycle import require_status, with_status
from aop.kernel.features.tree.known_trees import TreeFacts, matching_trees, trees_of
from aop.kernel.features.tree.tree_history import WITH_TREES, TreeHistory, history_of
from aop.kernel.features.work_requests import request_work, store_pause
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Outcome, Tool, feature_named, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, READERS
from aop.kernel.patches.checks import judge_plan
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.waiting_queue import store_and_release
from aop.kernel.ports.git import GitObjects
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot, Transaction

EVENTS = {"undo": "tree_undone", "redo": "tree_redone"}
NOWHERE = {"undo": "The feature has no earlier tree.", "redo": "Nothing was undone since the newest change."}


class Trees(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    trees: tuple[TreeFacts, ...]
    """Oldest first, since the feature was last moved onto a base."""
    previous: str | None
    """The tree that an undo leads to; null for the base."""
    next: str | None
    """The tree that a redo leads to; null unless something was undone."""


def trees(call: Call, arguments: FeatureArguments) -> Outcome:
    """List the trees that a feature has had, with the time and the call that made each."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        history = _history_of(call.kernel.git.objects, view, state)
        listed = trees_of(call.kernel.git.objects, view, state)
        return copy_fields(Trees, state, trees=listed, previous=history.previous, next=history.next)


class UndoArguments(ChangeArguments, frozen=True, kw_only=True):
    to: Annotated[str, Meta(pattern="^([0-9]{1,6}|[0-9a-f]{7,64})$")] | None = None
    """The number or the id of a tree, as `feature.trees` lists them; an id may be shortened. Null: one step back."""


class UndoResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    tree: str
    before: str
    """The tree before; it stays reachable under `refs/aop/undone/`."""


def undo(call: Call, arguments: UndoArguments) -> Outcome:
    """Go back one tree, or to any listed one; the gates become stale, approvals void, and the feature is paused."""
    return _go_to_tree(call, arguments, arguments.to, "undo")


def redo(call: Call, arguments: ChangeArguments) -> Outcome:
    """Go forward again by one tree that was undone, under the same rules as an undo."""
    return _go_to_tree(call, arguments, None, "redo")


def _go_to_tree(call: Call, arguments: ChangeArguments, to: str | None, way: Literal["undo", "redo"]) -> Outcome:
    kernel, git = call.kernel, call.kernel.git
    with held_worktree(kernel, arguments.feature_id):
        with kernel.record.read() as view:
            seen = the_feature(view, arguments)
            accepted = view.get(AcceptedPlan, seen.feature_id)
            require_status(seen, Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.BLOCKED, to="go back")
            target = _target(git.objects, view, seen, to, way)
        base = git.objects.tree_of(seen.base_commit)
        whole_diff = _full_diff(git.objects, base, target)
        _judge_tree(call, accepted, base, target)
        git.branches.keep(seen.feature_id, seen.tree, aside=True)
        kernel.send_work(msgspec.structs.replace(seen, tree=target))

        def decide(tx: Transaction) -> Outcome:
            # At this version the feature still has the plan by which the tree was judged.
            state = the_feature(tx, msgspec.structs.replace(arguments, expected_version=seen.version))
            tx.append(call.event(EVENTS[way], state.feature_id, tree=target, before=state.tree))
            stored = store_and_release(tx, call, state, _with_other_tree(state, target))
            renew_index(tx, stored, whole_diff, accepted.plan if accepted else None, kernel.config())
            tx.mark_unshown("worktree", stored.feature_id)
            store_pause(tx, call, stored.feature_id)
            request_work(tx, call, stored.feature_id, again=True)
            return copy_fields(UndoResult, feature_named(tx, stored.feature_id), before=state.tree)

        return call.commit(decide)


def _target(
    objects: GitObjects, view: Snapshot, state: FeatureState, to: str | None, way: Literal["undo", "redo"]
) -> TreeId:
    """Return the tree to go to. Raises: InvalidArguments."""
    if to is not None:
        return _tree_named(to, trees_of(objects, view, state))
    history = _history_of(objects, view, state)
    tree = history.previous if way == "undo" else history.next
    if tree is None:
        raise InvalidArguments(NOWHERE[way], hint="`feature.trees` lists the trees.", tool=f"feature.{way}")
    return TreeId(ObjectId(tree))


def _history_of(objects: GitObjects, view: Snapshot, state: FeatureState) -> TreeHistory:
    entries = view.journal(feature_id=state.feature_id, kinds=WITH_TREES)
    return history_of((entry.event for entry in entries), str(objects.tree_of(state.base_commit)))


def _tree_named(wish: str, known: tuple[TreeFacts, ...]) -> TreeId:
    """Return the tree that a number or a short id names. Raises: InvalidArguments."""
    trees = matching_trees(wish, known)
    if len(trees) != 1:
        raise InvalidArguments(
            f"`{wish}` names {'no' if not trees else 'more than one'} tree of this feature.",
            hint="`feature.trees` lists them, with their numbers.",
            tool="feature.undo",
        )
    if any(facts.current and facts.tree == trees[0] for facts in known):
        raise InvalidArguments(f"The feature already has the tree `{trees[0][:12]}`.", tool="feature.undo")
    return TreeId(ObjectId(trees[0]))


def _full_diff(objects: GitObjects, base: TreeId, target: TreeId) -> bytes:
    try:
        return objects.diff(base, target, context_lines=0)
    except Fault as error:
        raise FileNotFound(
            f"The tree `{target[:12]}` is no longer in the repository.",
            hint="Git removes old objects that no ref names. Choose another tree.",
            tree=target,
        ) from error


def _judge_tree(call: Call, accepted: AcceptedPlan | None, base: TreeId, target: TreeId) -> None:
    """Refuse a tree that the current plan does not allow. Raises: AreaNotAllowed, UnplannedFile."""
    if accepted is not None:
        policy = call.kernel.config().policy
        changes, rules = call.kernel.git.objects.changes(base, target), policy.patch_policy
        bounds = bounds_of(accepted.plan, policy)
        judge_plan(changes, bounds, areas=rules.enforce_allowed_areas, files=rules.enforce_plan)


def _with_other_tree(state: FeatureState, tree: TreeId) -> FeatureState:
    """Return the feature with another of its trees, in the status from which it is built again."""
    reason = f"A person went to tree `{tree[:12]}`."
    state = msgspec.structs.replace(state, tree=tree, gates=reset_verdicts(state.gates), set_aside=None)
    if state.status is Status.BLOCKED:
        was_further = state.blocked_from in (Status.QA, Status.READY_TO_MERGE)
        return msgspec.structs.replace(state, blocked_from=Status.BUILDING if was_further else state.blocked_from)
    if state.status is Status.QA:
        # No legal step leads back from `qa`; with another tree the feature is where it was before its gates ran.
        return msgspec.structs.replace(state, status=Status.BUILDING, status_reason=reason)
    return state if state.status is Status.BUILDING else with_status(state, Status.BUILDING, reason=reason)


TOOLS = (
    Tool(
        name="feature.trees",
        summary="List the trees that a feature has had, with the time and the call that made each.",
        arguments=FeatureArguments,
        output=Trees,
        roles=READERS,
        run=trees,
    ),
    Tool(
        name="feature.undo",
        summary="Go back one tree of the feature, or to any of its trees; gates become stale, approvals void.",
        arguments=UndoArguments,
        output=UndoResult,
        roles=COORDINATORS,
        run=undo,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="feature.redo",
        summary="Go forward again by one tree that was undone.",
        arguments=ChangeArguments,
        output=UndoResult,
        roles=COORDINATORS,
        run=redo,
        mutates=True,
        person_only=True,
    ),
)
