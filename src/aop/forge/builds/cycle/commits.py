"""Commits of a build: by the bot, on its branch, and the only push that AOP knows."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from aop.core.errors import BuildBranchMoved, ForgeInvariantError, UnknownFeature, VersionConflict
from aop.core.ids import CommitId, TreeId
from aop.forge.builds.cycle.branch_rule import check_branch, default_branches
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.workspace.exclusion import refuse_contract_words
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.gateway.calls import Call, Kernel, Outcome
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move
from aop.kernel.merges.merge import FORGED_TRAILER, refuse_secret_message
from aop.kernel.ports.git import Author
from aop.kernel.ports.remotes import Publication
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction

BOT = Author(name="ForgeGuard Bot", email="forgeguard-bot@users.noreply.github.com")
"""The author of every commit that AOP makes for a build (FORGE-196)."""
PREFIX = "[forge] "
TRAILER = "Build-Cycle"
COMMITTED = "build_committed"
"""The event for a commit that AOP made: only these are its own, whatever the author of another one says."""

_OWN_LINE = re.compile(rf"\s*{TRAILER}\s*:", re.IGNORECASE)


def commit_and_push(
    call: Call,
    cycle: BuildCycle,
    tree: TreeId,
    subject: str,
    body: str = "",
    *,
    store: Callable[[Transaction, BuildCycle], Outcome],
    push: bool = False,
) -> Outcome:
    """Commit a tree on the branch of a build together with a decision, or neither; return the decision's answer.

    `store` gets the transaction and the cycle with its new head, may store the cycle once more, and returns the answer
    of the tool, whose row has `resolve=undo_move`. The caller holds the worktree. With `push` the branch is pushed
    afterwards; so it is if the start of the cycle was killed before its own push.
    Raises: ForgeInvariantError, ContractQuoted, BuildBranchMoved, VersionConflict, SecretDetected.
    """
    kernel = call.kernel
    check_branch(kernel, cycle.branch)
    refuse_contract_words(call, cycle, tree)
    message = message_of(cycle, subject, body)
    refuse_secret_message(message, kernel.redact)
    if branch_tip(kernel, cycle) != cycle.head:
        raise BuildBranchMoved(
            f"The branch `{cycle.branch}` has commits that the build did not take in yet.",
            hint="`aop forge build PROJECT` takes them in.",
            branch=cycle.branch,
        )
    made = kernel.git.objects.commit(tree, [cycle.head], message, when=kernel.clock.now(), author=BOT)

    def decide(tx: Transaction) -> Outcome:
        return store(tx, _with_head(call, tx, cycle, made, tree))

    answer = commit_with_move(call, BranchMove(branch=cycle.branch, old=cycle.head, new=made), decide)
    if push or not (cycle.published or cycle.publish_problem):
        publish_branch(call, cycle.build_id)
    return answer


def message_of(cycle: BuildCycle, subject: str, body: str = "") -> str:
    """Return the message of a commit: its subject after the prefix, its body, and the trailer (FORGE-197, 198)."""
    words = " ".join(_printable(subject).split())
    while words.startswith(PREFIX.strip()):
        words = words.removeprefix(PREFIX.strip()).lstrip()
    lines = _printable(body).split("\n")
    text = "\n".join(each for each in lines if not (_OWN_LINE.match(each) or FORGED_TRAILER.match(each))).strip()
    parts = (f"{PREFIX}{words}", text, f"{TRAILER}: {cycle.build_id}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _printable(text: str) -> str:
    return "".join(char for char in text.replace("\r\n", "\n") if char in "\n\t" or char.isprintable())


def branch_tip(kernel: Kernel, cycle: BuildCycle) -> CommitId:
    """Return the commit of a branch that holds what AOP left there, and perhaps more. Raises: BuildBranchMoved."""
    tip = kernel.git.branches.head(cycle.branch)
    if tip is None:
        raise _moved(cycle, "is gone", f"git branch {cycle.branch} {cycle.head}")
    if tip != cycle.head and not kernel.git.objects.is_ancestor(cycle.head, tip):
        raise _moved(cycle, f"is at {tip[:12]}", f"git update-ref refs/heads/{cycle.branch} {cycle.head}")
    return tip


def _moved(cycle: BuildCycle, what: str, command: str) -> BuildBranchMoved:
    return BuildBranchMoved(
        f"The branch `{cycle.branch}` {what}, and does not have the commit {cycle.head[:12]} of the build.",
        hint=f"Return it with `{command}`, or end the build with `aop forge cancel {cycle.build_id}`.",
        branch=cycle.branch,
        head=cycle.head,
        build_id=cycle.build_id,
    )


def _with_head(call: Call, tx: Transaction, cycle: BuildCycle, made: CommitId, tree: TreeId) -> BuildCycle:
    state = unchanged_cycle(tx, cycle)
    moved = revise(cycle, head=made, updated_at=call.kernel.now())
    tx.put(moved, cycle.build_id)
    store_feature(tx, state, replace(state, branch_commit=made), now=moved.updated_at)
    facts = {"project_id": cycle.project_id, "build_id": cycle.build_id, "commit": made, "tree": tree}
    tx.append(call.event(COMMITTED, state.feature_id, **facts, before=cycle.head))
    return moved


def unchanged_cycle(view: Snapshot, cycle: BuildCycle) -> FeatureState:
    """Return the feature of a cycle that is still as it was read. Raises: VersionConflict."""
    now, state = view.get(BuildCycle, cycle.build_id), view.get(FeatureState, cycle.build_id)
    if state is None:
        raise UnknownFeature(cycle.build_id)
    if now != cycle:
        current = 0 if now is None else now.version
        raise VersionConflict(f"The build `{cycle.build_id}`", expected=cycle.version, current=current)
    return state


def publish_branch(call: Call, build_id: str) -> None:
    """Push the branch of a build as AOP left it, and record how that went; without a remote, do nothing.

    What led to it is recorded already, so a refused push is a problem of the cycle, and not a refusal.
    """
    kernel = call.kernel
    with kernel.record.read() as view:
        cycle = view.get(BuildCycle, build_id)
    if cycle is None or kernel.remotes is None:
        return
    try:
        done = kernel.remotes.publish(cycle.branch, cycle.head, never=default_branches(kernel))
    except ForgeInvariantError as refusal:
        done = Publication(state="rejected", problem=refusal.message)
    if done.state == "no_remote":
        return
    problem = kernel.redact(done.problem)
    with kernel.record.write() as tx:
        now = tx.get(BuildCycle, build_id)
        if now is None:
            return
        published = cycle.head if done.state == "pushed" else now.published
        tx.put(revise(now, published=published, publish_problem=problem), build_id)
        facts = {"build_id": build_id, "branch": cycle.branch, "commit": cycle.head, "state": done.state}
        tx.append(call.event("build_branch_pushed", None, **facts, remote=done.remote, problem=problem))
