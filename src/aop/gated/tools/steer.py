"""Steering: start, status and reset of a gated workflow, for a person."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import AgentAtWork, BranchExists, InvalidArguments, NoMasterPlan, NoWorkflow
from aop.core.ids import FeatureId, feature_id
from aop.core.paths.names import canonical_path
from aop.gated.machine.master_plan import plan_problem
from aop.gated.machine.state import Phase, Workflow
from aop.gated.session.documents import ACTIVE_PR, ORCHESTRATION_STATE, GatedWorkflow
from aop.gated.session.session import put_workflow, write_files
from aop.gated.tools.workflow_facts import WorkflowFacts, plan_at, workflow_facts
from aop.kernel.features.lifecycle import store_feature, with_status
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Arguments, Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.merge import base_head
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.questions import Question, close_question
from aop.kernel.record.port import Snapshot, Transaction

BEGUN_AGAIN = "The workflow was started over."


class Start(ChangeArguments, frozen=True, kw_only=True):
    master_plan: str | None = None
    """The path of the plan of all pull requests; by default, the one in the policy."""


def start(call: Call, arguments: Start) -> Outcome:
    """Create a worktree for one agent, detached at the base; a repeated call returns the existing workflow."""
    kernel, name = call.kernel, feature_id(arguments.feature_id)
    if _is_resolved(kernel, name):
        return reset(call, arguments)
    plan = canonical_path(arguments.master_plan or kernel.config().policy.gated.master_plan)
    with held_worktree(kernel, name):
        _refuse_features(kernel, arguments)
        with kernel.record.read() as view:
            known = view.get(GatedWorkflow, name)
            if known is None:
                _refuse_second(view, plan)
        new = GatedWorkflow(version=next_version(known), feature_id=name, master_plan=plan, **_at_base(kernel))
        wanted = _current_or_new(known, new)
        if wanted != known:
            _refuse_tracked(kernel, wanted)
            kernel.git.worktrees.ensure_detached(name, wanted.base_commit)
            kernel.git.worktrees.show_tree(name, wanted.tree)

        def decide(tx: Transaction) -> Outcome:
            if known is None:
                _refuse_second(tx, plan)
            if wanted != known:
                put_workflow(tx, wanted)
                tx.append(call.event("workflow_started", name, base=wanted.base_commit, master_plan=wanted.master_plan))
            return workflow_facts(kernel, wanted, created=known is None)

        answer = call.commit(decide)
        write_files(kernel, wanted)
        return answer


def _is_resolved(kernel: Kernel, name: FeatureId) -> bool:
    """Tell whether a person has ended the pull request of a halted workflow: its branch is gone (GATED-98)."""
    with kernel.record.read() as view:
        known = view.get(GatedWorkflow, name)
    if known is None or known.branch is None or known.workflow.status is not Phase.HALTED:
        return False
    return kernel.git.branches.head(known.branch) is None


def _at_base(kernel: Kernel) -> dict[str, Any]:
    base = base_head(kernel, kernel.config())
    return {"base_commit": base, "head": base, "tree": kernel.git.objects.tree_of(base)}


def _current_or_new(known: GatedWorkflow | None, new: GatedWorkflow) -> GatedWorkflow:
    """Return the existing workflow; an untouched one follows the base branch."""
    if known is None:
        return new
    if not is_untouched(known) or known.base_commit == new.base_commit:
        return known
    return replace(new, master_plan=known.master_plan, agent=known.agent)


def is_untouched(known: GatedWorkflow) -> bool:
    """Tell whether no work has begun."""
    return replace(known.workflow, judged=False) == Workflow() and known.draft is None


def _refuse_features(kernel: Kernel, arguments: Start) -> None:
    with kernel.record.read() as view:
        if arguments.expected_version is not None:
            the_feature(view, arguments)
        state, known = view.get(FeatureState, arguments.feature_id), view.get(GatedWorkflow, arguments.feature_id)
    if state is not None and known is None:
        raise InvalidArguments(
            f"`{state.feature_id}` is already a feature.", hint="Choose another name.", feature_id=state.feature_id
        )


def _refuse_second(view: Snapshot, plan: str) -> None:
    """Refuse a second workflow on a plan that another one works on."""
    for other in view.all(GatedWorkflow):
        if other.master_plan == plan and not is_untouched(other):
            raise AgentAtWork(
                f"The workflow `{other.feature_id}` already works on `{plan}`.",
                hint=f"Continue it with `--name {other.feature_id}`, or choose another plan with `--plan PATH`.",
                feature_id=other.feature_id,
            )


def _refuse_tracked(kernel: Kernel, new: GatedWorkflow) -> None:
    for name in (ACTIVE_PR, ORCHESTRATION_STATE):
        if kernel.git.objects.entry(new.tree, name) is not None:
            raise BranchExists(
                f"The base branch has a file `{name}`, which the workflow needs for itself.",
                hint=f"Remove `{name}` from the base branch.",
            )


class AskStatus(Arguments, frozen=True, kw_only=True):
    pass


class Workflows(Struct, frozen=True, kw_only=True):
    workflows: tuple[WorkflowFacts, ...]
    """Every workflow that the caller may reach."""


def status(call: Call, _arguments: AskStatus) -> Outcome:
    """Return every workflow."""
    with call.kernel.record.read() as view:
        found = [known for known in view.all(GatedWorkflow) if call.principal.reaches(known.feature_id)]
    return Workflows(workflows=tuple(workflow_facts(call.kernel, known) for known in found))


def reset(call: Call, arguments: ChangeArguments) -> Outcome:
    """Start over at the base; the branch and its commits stay."""
    kernel, name = call.kernel, FeatureId(arguments.feature_id)
    with held_worktree(kernel, name):
        with kernel.record.read() as view:
            known = _the_workflow(view, arguments)
        if known.tree != kernel.git.objects.tree_of(known.head):
            kernel.git.branches.keep(name, known.tree, aside=True)
        version, plan = next_version(known), known.master_plan
        anew = GatedWorkflow(version=version, feature_id=name, master_plan=plan, **_at_base(kernel))

        def decide(tx: Transaction) -> Outcome:
            put_workflow(tx, anew)
            state = tx.get(FeatureState, name)
            if state is not None and state.status not in TERMINAL:
                ended = with_status(replace(state, tree=anew.tree), Status.FAILED, reason=BEGUN_AGAIN)
                store_feature(tx, state, ended, now=kernel.now())
            _close_questions(tx, call, name)
            tx.append(call.event("workflow_reset", name, was=known.workflow.status, left=known.head))
            return workflow_facts(kernel, anew)

        answer = call.commit(decide)
        kernel.git.worktrees.ensure_detached(name, anew.base_commit)
        kernel.git.worktrees.discard_strays(name, anew.tree)
        write_files(kernel, anew)
        return answer


def _the_workflow(view: Snapshot, arguments: ChangeArguments) -> GatedWorkflow:
    if arguments.expected_version is not None:
        the_feature(view, arguments)
    known = view.get(GatedWorkflow, arguments.feature_id)
    if known is None:
        raise NoWorkflow(f"There is no workflow `{arguments.feature_id}`.")
    return known


def refuse_without_plan(kernel: Kernel, name: str, wanted: str | None) -> None:
    """Refuse to start without a master plan. Raises: NoMasterPlan."""
    with kernel.record.read() as view:
        known = view.get(GatedWorkflow, name)
    if known is not None and not is_untouched(known):
        return
    path = known.master_plan if known else canonical_path(wanted or kernel.config().policy.gated.master_plan)
    plan = plan_at(kernel, kernel.git.objects.tree_of(base_head(kernel, kernel.config())), path)
    if plan is None:
        raise NoMasterPlan(plan_problem(path, plan), path=path)


def _close_questions(tx: Transaction, call: Call, name: FeatureId) -> None:
    """Close the open questions of the old work."""
    for question in [each for each in tx.all(Question) if each.feature_id == name and each.is_open]:
        tx.put(close_question(question, call.kernel.now(), BEGUN_AGAIN), question.question_id)
        facts = {"question_id": question.question_id, "because": BEGUN_AGAIN}
        tx.append(call.event("question_closed", name, **facts))


TOOLS = (
    Tool(
        name="gated.start",
        summary="Create a worktree in which one agent works through a plan, one judged step at a time.",
        arguments=Start,
        output=WorkflowFacts,
        roles=COORDINATORS,
        run=start,
        mutates=True,
        idempotent=True,
        person_only=True,
    ),
    Tool(
        name="gated.status",
        summary="Return the gated workflows and their status.",
        arguments=AskStatus,
        output=Workflows,
        roles=COORDINATORS,
        run=status,
    ),
    Tool(
        name="gated.reset",
        summary="Start a gated workflow over at the base branch; its branch stays.",
        arguments=ChangeArguments,
        output=WorkflowFacts,
        roles=COORDINATORS,
        run=reset,
        mutates=True,
        person_only=True,
    ),
)
