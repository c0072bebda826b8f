"""Session: one call on a workflow, stored as a whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import FileNotFound, InvalidArguments, Json, NoWorkflow, VersionConflict
from aop.core.ids import CommitId, FeatureId
from aop.gated.machine.position import Rules
from aop.gated.machine.state import AttemptThresholds, Phase, Workflow
from aop.gated.session.documents import REVIEW_INPUT, GatedWorkflow
from aop.kernel.config.in_force import Config
from aop.kernel.config.workflows import GatedRules
from aop.kernel.features.lifecycle import relist, store_feature
from aop.kernel.features.questions import put_question
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.gate_runs import record_run
from aop.kernel.gateway.calls import Call, Kernel, Outcome
from aop.kernel.gateway.principals import Principal
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move, move_branch
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.questions import HumanGate
from aop.kernel.record.documents.usage import FeatureUsage, Usage
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.spending import with_turn


class PendingQuestion(Struct, frozen=True, kw_only=True):
    """A question for a person; it gets its id when it is stored."""

    gate: HumanGate
    text: str
    more: Mapping[str, Any] = {}


class ReviewRecord(Struct, frozen=True, kw_only=True):
    """The record of a review."""

    verdict: str = ""
    """Empty without a report."""
    summary: str = ""
    blocking: int = 0
    model: str = ""
    """Empty for a command."""
    usage: Usage | None = None


class Session:
    """The workflow as a call knows it, and the call's changes so far."""

    def __init__(self, call: Call, known: GatedWorkflow, state: FeatureState | None) -> None:
        self.call = call
        self.kernel = call.kernel
        self.config = call.kernel.config()
        self.before, self.known = known, known
        self.state_before, self.state = state, state
        self.runs: list[GateRun] = []
        self.move: BranchMove | None = None
        self.asking: PendingQuestion | None = None
        self.review: ReviewRecord | None = None
        self.notes: list[str] = []
        """Notes for the agent: what was found changed and was restored."""

    @property
    def name(self) -> FeatureId:
        """Return the id of the workflow."""
        return self.known.feature_id

    @property
    def workflow(self) -> Workflow:
        """Return the workflow as it is now."""
        return self.known.workflow

    @property
    def policy(self) -> GatedRules:
        """Return the policy's rules for gated workflows."""
        return self.config.policy.gated

    @property
    def rules(self) -> Rules:
        """Return the rules for the state machine."""
        return rules_for(self.config, self.known)

    def learn(self, **changes: object) -> None:
        """Change the known workflow."""
        self.known = replace(self.known, **changes)

    def the_state(self) -> FeatureState:
        """Return the feature; a workflow with a branch has one."""
        if self.state is None:
            raise AssertionError("a workflow with a branch is a feature")
        return self.state

    def advance_to(self, commit: CommitId) -> None:
        """Move the branch to a commit when the session is stored."""
        state = self.the_state()
        self.move = BranchMove(branch=state.branch, old=self.before.head, new=commit)
        self.learn(head=commit)
        self.state = replace(state, branch_commit=commit)

    def finish(self, outcome: Outcome) -> Outcome:
        """Move the branch, store the session and update the worktree, as one operation."""
        return self.finish_with(lambda: outcome)

    def finish_with(self, outcome: Callable[[], Outcome]) -> Outcome:
        """Finish with an answer that needs facts known only after storing."""
        if self.call.principal.token:
            self.learn(agent=self.call.principal.token)

        def decide(tx: Transaction) -> Outcome:
            return self._store(tx, outcome)

        if self.state is not None:
            self.kernel.send_work(self.state)
        move = self.move
        answer = self.call.commit(decide) if move is None else commit_with_move(self.call, move, decide)
        if move is not None and move.old is None:
            self.kernel.git.worktrees.ensure(self.name, move.branch)
        write_files(self.kernel, self.known)
        return answer

    def _store(self, tx: Transaction, outcome: Callable[[], Outcome]) -> Outcome:
        now = tx.get(GatedWorkflow, self.name)
        if now != self.before:
            current = 0 if now is None else now.version
            raise VersionConflict(f"The workflow `{self.name}`", expected=self.before.version, current=current)
        if self.asking is not None:
            self._ask(tx, self.asking)
        if self.known != self.before:
            put_workflow(tx, revise(self.known))
        self._store_feature(tx)
        if self.review is not None:
            self._record_review(tx, self.review)
        facts: dict[str, Json] = {"tool": self.call.tool.name, "status": self.workflow.status, "notes": self.notes}
        tx.append(self.call.event("workflow_called", self.name, **facts, tree=self.known.tree, head=self.known.head))
        return outcome()

    def _ask(self, tx: Transaction, asking: PendingQuestion) -> None:
        question = put_question(tx, self.call, self.name, asking.gate, asking.text, **asking.more)
        if asking.gate == "escalation":
            self.learn(question=question.question_id)

    def _record_review(self, tx: Transaction, review: ReviewRecord) -> None:
        tx.append(self.call.event("work_reviewed", self.name, **msgspec.to_builtins(review)))
        if review.usage is not None:
            known = tx.get(FeatureUsage, self.name) or FeatureUsage(version=0, feature_id=self.name)
            tx.put(with_turn(known, "reviewer", "review", review.usage), self.name)

    def _store_feature(self, tx: Transaction) -> None:
        state, now = self.state, self.kernel.now()
        if state is None:
            return
        before = tx.get(FeatureState, self.name)
        if before != self.state_before:
            raise VersionConflict(f"The feature `{self.name}`", expected=state.version, current=0)
        if before is None:
            tx.put(state, self.name)
            relist(tx, self.name, state.status, now=now)
            tx.mark_unshown("feature", self.name)
        elif state != before:
            state = store_feature(tx, before, state, now=now)
        for run in self.runs:
            state = record_run(tx, self.call, state, state, run)
        self._record_tree(tx, before, state)
        if state.tree != (before.tree if before else None) and state.status is not Status.MERGED:
            tx.mark_unshown("worktree", self.name)

    def _record_tree(self, tx: Transaction, before: FeatureState | None, state: FeatureState) -> None:
        """Record the feature's tree, so that a person can go back to it."""
        if self.move is not None and self.move.old is None:
            base = {"branch": state.branch, "base_commit": state.base_commit}
            tx.append(self.call.event("feature_initialised", self.name, **base))
        elif before is not None and state.tree != before.tree:
            files = len(self.kernel.git.objects.changes(before.tree, state.tree))
            trees = {"tree": state.tree, "before": before.tree}
            tx.append(self.call.event("patch_applied", self.name, **trees, files=files))


def rules_for(config: Config, known: GatedWorkflow) -> Rules:
    """Return the state machine's rules from the policy."""
    given = {name: getattr(config.policy.gated, name) for name in AttemptThresholds.__struct_fields__}
    base = config.policy.worktree.base_branch
    return Rules(master_plan=known.master_plan, base_branch=base, thresholds=AttemptThresholds(**given))


def workflow_of(view: Snapshot, principal: Principal) -> GatedWorkflow:
    """Return the workflow of a caller: that of its scope, or the only one. Raises: NoWorkflow, InvalidArguments."""
    reached = [known for known in view.all(GatedWorkflow) if principal.reaches(known.feature_id)]
    if not reached:
        raise NoWorkflow("There is no gated workflow for this caller.")
    if len(reached) > 1:
        names = [known.feature_id for known in reached]
        raise InvalidArguments(
            f"There are {len(names)} workflows, and this caller is not limited to one of them.",
            hint="Use a token for one of them: `aop token swe --feature ID`.",
            workflows=list(names),
        )
    return reached[0]


@contextmanager
def session_of(call: Call) -> Iterator[Session]:
    """Hold the caller's workflow, with foreign changes undone. Raises: NoWorkflow, InvalidArguments, WorktreeBusy."""
    kernel = call.kernel
    with kernel.record.read() as view:
        name = workflow_of(view, call.principal).feature_id
    with held_worktree(kernel, name):
        with kernel.record.read() as view:
            known, state = view.get(GatedWorkflow, name), view.get(FeatureState, name)
        if known is None:
            raise NoWorkflow(f"The workflow `{name}` is gone.")
        if known.branch is not None and state is None:
            raise NoWorkflow(
                f"The feature of the workflow `{name}` was deleted.",
                hint="A person starts over with `aop gated reset`.",
            )
        session = Session(call, known, state)
        if known.branch is not None and state is not None and state.status not in TERMINAL:
            # A person may have returned to an earlier tree.
            session.learn(tree=state.tree)
        session.notes += _restore(kernel, known, state)
        yield session


def put_workflow(tx: Transaction, known: GatedWorkflow) -> None:
    """Store a workflow, and mark its worktree for an update."""
    tx.put(known, known.feature_id)
    tx.mark_unshown("workflow", known.feature_id)


def show_workflow(kernel: Kernel, name: FeatureId) -> None:
    """Restore HEAD, the branch and the two files from the record after a killed server."""
    with kernel.record.read() as view:
        known, state = view.get(GatedWorkflow, name), view.get(FeatureState, name)
    is_whole = known is not None and (known.branch is None or state is not None)
    if known is not None and is_whole and kernel.git.worktrees.head(name) is not None:
        _restore(kernel, known, state)


def _restore(kernel: Kernel, known: GatedWorkflow, state: FeatureState | None) -> list[str]:
    """Restore refs and files as the server left them; return what was different."""
    # A killed review leaves its input file behind.
    with suppress(FileNotFound):
        kernel.files.remove(f"{_folder_of(kernel, known)}/{REVIEW_INPUT}")
    is_merged = state is not None and state.status is Status.MERGED and known.branch is not None
    # A person resolves the conflict of a halted workflow in its branch.
    is_left_alone = is_merged or known.workflow.status is Phase.HALTED
    return [*([] if is_left_alone else restore_refs(kernel, known)), *write_files(kernel, known)]


def restore_refs(kernel: Kernel, known: GatedWorkflow) -> list[str]:
    """Return HEAD and the branch to where the server left them; list what had moved (C-58)."""
    git, branch, moved = kernel.git, known.branch, []
    head = git.worktrees.head(known.feature_id)
    if branch is None:
        if head not in (known.head, None):
            moved.append(f"HEAD of the worktree was at `{head}`, and not where the server left it.")
        git.worktrees.ensure_detached(known.feature_id, known.head)
        return moved
    tip = git.branches.head(branch)
    if tip != known.head:
        moved.append(f"The branch `{branch}` was at `{tip}`, and the server left it at `{known.head}`.")
        move_branch(kernel, BranchMove(branch=branch, old=tip, new=known.head))
    # A call that died after it made the branch leaves HEAD at the branch's start.
    if head not in (f"refs/heads/{branch}", known.base_commit, None):
        moved.append(f"HEAD of the worktree was at `{head}`, and not on `{branch}`.")
    git.worktrees.ensure(known.feature_id, branch)
    return moved


def write_files(kernel: Kernel, known: GatedWorkflow) -> list[str]:
    """Write the two files of the worktree from the record; return which had been changed."""
    folder = _folder_of(kernel, known)
    changed = []
    for name, content in known.files().items():
        path = f"{folder}/{name}"
        found = kernel.files.fingerprint(path)
        wanted = None if content is None else hashlib.sha256(content).hexdigest()
        if found == wanted:
            continue
        if found is not None:
            changed.append(f"`{name}` differed from the record and was written again.")
        if content is None:
            kernel.files.remove(path)
        else:
            kernel.files.write(path, content)
    return changed


def _folder_of(kernel: Kernel, known: GatedWorkflow) -> str:
    return kernel.git.worktrees.path(known.feature_id).relative_to(kernel.files.root).as_posix()
