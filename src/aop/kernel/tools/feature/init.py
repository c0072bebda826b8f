"""Tool `feature.init`: a feature with its own branch and worktree."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.core.errors import BaseBranchUnusable, BranchExists, FeatureDeleted
from aop.core.ids import CommitId, FeatureId, feature_id
from aop.core.structs import copy_fields
from aop.kernel.config.in_force import Config
from aop.kernel.features.endings import ending_of
from aop.kernel.features.lifecycle import NOT_RUN, relist
from aop.kernel.features.specs import share_spec
from aop.kernel.features.tree.tree_history import TAKEN, WITH_TREES
from aop.kernel.features.worktree_extras import allocate_ports, place_extras
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.specs import IngestedSpec
from aop.kernel.record.port import Snapshot, Transaction


class InitResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    branch: str
    worktree_path: str
    base_branch: str
    base_commit: str
    created: bool
    """False when the feature already existed, and nothing changed."""
    unproven: bool = False
    """Whether its tree has edits that a person made, and no gate has run on them."""


def init(call: Call, arguments: ChangeArguments) -> Outcome:
    """Create a feature: branch, worktree, state. A repeated call returns the existing one."""
    kernel, config = call.kernel, call.kernel.config()
    name = feature_id(arguments.feature_id)
    with held_worktree(kernel, name):
        with kernel.record.read() as view:
            known = view.get(FeatureState, name) if arguments.expected_version is None else the_feature(view, arguments)
            _refuse_deleted(call, view, name)
        base = known.base_commit if known else _place_branch(kernel, name, config)
        worktree = kernel.git.worktrees.ensure(name, known.branch if known else name)
        new = FeatureState(
            version=1,
            feature_id=name,
            branch=name,
            worktree_path=worktree.relative_to(kernel.files.root).as_posix(),
            status=Status.PLANNING,
            gate_profile="default",
            gates={"plan": Verdict.NA, **NOT_RUN},
            last_updated=kernel.now(),
            base_commit=base,
            tree=kernel.git.objects.tree_of(base),
        )
        rules = config.policy.worktree
        place_extras(kernel, known.tree if known else new.tree, worktree, rules)
        if known is None:
            kernel.send_work(new)

        def decide(tx: Transaction) -> Outcome:
            state = tx.get(FeatureState, name)
            allocate_ports(tx, name, rules, kernel.worktree_extras.is_free)
            share_spec(tx, kernel, name)
            if state is None:
                ingested = tx.get(IngestedSpec, name)
                _store_new(tx, call, msgspec.structs.replace(new, spec=ingested.source if ingested else None))
            else:
                the_feature(tx, arguments)
                # A recreated worktree holds the files of its branch; the feature may be further.
                tx.mark_unshown("worktree", name)
            base_branch = rules.base_branch
            return copy_fields(
                InitResult,
                state or new,
                base_branch=base_branch,
                created=state is None,
                unproven=state is not None and _has_unproven_edits(tx, state),
            )

        return call.commit(decide)


def _refuse_deleted(call: Call, view: Snapshot, name: FeatureId) -> None:
    """Let only a person start a deleted feature anew; a run that was left over must not. Raises: FeatureDeleted."""
    is_deleted = view.get(FeatureState, name) is None and ending_of(view, name) is not None
    if is_deleted and not call.principal.person:
        raise FeatureDeleted(f"The feature `{name}` was deleted.", feature_id=name)


def _has_unproven_edits(view: Snapshot, state: FeatureState) -> bool:
    newest = next(view.journal(feature_id=state.feature_id, kinds=WITH_TREES, newest=1), None)
    is_taken = newest is not None and newest.event.kind == TAKEN
    return is_taken and state.status is Status.BUILDING and state.gates.get("fast") is Verdict.NA


def _place_branch(kernel: Kernel, name: FeatureId, config: Config) -> CommitId:
    base_branch = config.policy.worktree.base_branch
    base = kernel.git.branches.head(base_branch)
    if base is None:
        raise BaseBranchUnusable(f"The base branch `{base_branch}` has no commit.", base_branch=base_branch)
    existing = kernel.git.branches.head(name)
    if existing is None:
        kernel.git.branches.create(name, base)
        return base
    # A branch without own commits was left by a call that died, or is where it would be cut anyway.
    if not kernel.git.objects.is_ancestor(existing, base):
        raise BranchExists(
            f"There is a branch `{name}` with commits that `{base_branch}` does not have.", branch=name, head=existing
        )
    return existing


def _store_new(tx: Transaction, call: Call, state: FeatureState) -> None:
    tx.put(state, state.feature_id)
    relist(tx, state.feature_id, state.status, now=state.last_updated)
    tx.mark_unshown("feature", state.feature_id)
    tx.append(call.event("feature_initialised", state.feature_id, branch=state.branch, base_commit=state.base_commit))


TOOLS = (
    Tool(
        name="feature.init",
        summary="Create a feature with its own branch and worktree, cut from the base branch.",
        arguments=ChangeArguments,
        output=InitResult,
        roles=COORDINATORS,
        run=init,
        mutates=True,
        idempotent=True,
    ),
)
