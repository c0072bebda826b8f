"""Tool `report.feature_summary`: a feature for review, from trees and the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from aop.core.errors import FileNotFound, MergeConflict, Refusal, UserApprovalRequired
from aop.core.ids import CommitId
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import require_status
from aop.kernel.features.opened_paths import PathAnswer, path_answers
from aop.kernel.features.requests.change_requests import ChangeRequest, open_requests
from aop.kernel.features.specs import spec_text
from aop.kernel.features.trees import ChangedFile, changed_files
from aop.kernel.gates.base.behaviour import BehaviourChanges, behaviour_changes
from aop.kernel.gates.guards.command_guards import command_guard
from aop.kernel.gates.summaries import RunSummary, latest_runs
from aop.kernel.gateway.calls import Call, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.merges.base_moves import conflict_now
from aop.kernel.merges.merge import base_head, check_locks, proven_runs, refuse_empty, void_reasons
from aop.kernel.merges.review_alerts import GuardedChange, LoweredCoverage, guarded_changes, lowered_coverage
from aop.kernel.plans.obligations.accounting import ReportedTests
from aop.kernel.plans.obligations.review import ObligationReview, reported_tests, review_obligations
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.documents.usage import FeatureUsage, Spending
from aop.kernel.record.port import Snapshot
from aop.kernel.record.projections import folder_of
from aop.kernel.record.spending import spent_on

_MODES_COMPARED = (Mode.FULL.value, Mode.FAST.value)
"""The runs whose comparison with the base is shown, the stronger first."""


class AgentText(Struct, frozen=True, kw_only=True):
    """The planner's text. AOP checked its form, not whether it is true."""

    written_by: str
    plan_version: int
    summary: str
    acceptance_criteria: tuple[str, ...]
    risk: tuple[str, ...]


class EvidenceLinks(Struct, frozen=True, kw_only=True):
    """Paths to the proof of one gate run, from the repository's root."""

    mode: str
    run_id: str
    verdict: Verdict
    current: bool
    evidence_path: str
    log_paths: tuple[str, ...]


class ApprovalFacts(Struct, frozen=True, kw_only=True):
    approval_id: str
    tree: str
    base: str
    approved_by: str
    approved_at: str
    void_because: tuple[str, ...]
    """Empty while the approval is valid."""


class MissingForMerge(Struct, frozen=True, kw_only=True):
    """One reason why a merge would be refused now."""

    code: str
    message: str
    conflicts: tuple[Mapping[str, Any], ...] = ()
    """Of a conflict with the base branch: each file, what happened to it, and the lines of both sides."""


class FeatureSummary(Struct, frozen=True, kw_only=True):
    state: FeatureState
    base_branch: str
    base_head: str | None
    """The head of the base branch now; it may have moved since the feature was cut."""
    agent_text: AgentText | None
    diff_stat: str
    changed_files: tuple[ChangedFile, ...]
    evidence: tuple[EvidenceLinks, ...]
    approvals: tuple[ApprovalFacts, ...]
    spent: Spending
    """The cost of the turns on the feature, all roles together."""
    spent_by_role: Mapping[str, Spending]
    missing: tuple[MissingForMerge, ...]
    """Conditions that a merge still lacks; the gates of the merged tree show only in the merge itself."""
    obligations: ObligationReview | None
    """The obligations of the spec, with the state of each; null if there never was a spec."""
    path_answers: tuple[PathAnswer, ...]
    """The guarded paths that workers asked for, with the person's answers."""
    behaviour: BehaviourChanges = BehaviourChanges()
    """The tests of the base that the feature removes, renames or contradicts, with their old and new text."""
    requests: tuple[ChangeRequest, ...] = ()
    """The open requests of people to change the feature, or to plan it anew."""
    guarded_changes: tuple[GuardedChange, ...] = ()
    """The changed files that are guarded, that steer tests, git or worktrees, or that a gate runs."""
    lowered_coverage: tuple[LoweredCoverage, ...] = ()
    """Coverage of the newest full or fast run that is lower than on the base, if a merge measured that."""


def feature_summary(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return a feature's state, changes and proof, and what a merge still needs."""
    kernel, config = call.kernel, call.kernel.config()
    branch = config.policy.worktree.base_branch
    head = kernel.git.branches.head(branch)
    with kernel.record.read() as view:
        state = the_feature(view, arguments)
        accepted = view.get(AcceptedPlan, state.feature_id)
        approvals = _approvals(view, state, config, base=head)
        base = kernel.git.objects.tree_of(state.base_commit)
        usage = view.get(FeatureUsage, state.feature_id)
        by_mode = latest_runs(kernel, view, state)
        runs = by_mode.values()
        changed = changed_files(kernel.git.objects.changes(base, state.tree))
        answers = path_answers(view, state.feature_id)
        return FeatureSummary(
            state=state,
            base_branch=branch,
            base_head=head,
            agent_text=_agent_text(kernel, view, state, accepted.plan) if accepted else None,
            diff_stat=kernel.redact.mask_secrets(kernel.git.objects.diff_stat(base, state.tree)),
            changed_files=changed,
            evidence=tuple(_evidence_links(state, run) for run in runs),
            approvals=approvals,
            spent=spent_on(usage),
            spent_by_role={} if usage is None else usage.roles,
            missing=_missing_for_merge(kernel, view, state, approvals),
            obligations=_obligations(kernel, view, state, reported_tests(runs, state)),
            path_answers=answers,
            guarded_changes=guarded_changes(
                changed, answers, config.policy, command_guard(config, kernel.git.objects, base)
            ),
            lowered_coverage=lowered_coverage(view, state, _measured(by_mode), config.policy),
            behaviour=_behaviour(kernel, state, accepted.plan if accepted else None, by_mode),
            requests=open_requests(view, state.feature_id),
        )


def _behaviour(
    kernel: Kernel, state: FeatureState, plan: Plan | None, runs: Mapping[str, RunSummary]
) -> BehaviourChanges:
    compared = [runs[mode].tests for mode in _MODES_COMPARED if mode in runs and "comparison" in runs[mode].tests]
    planned = (*state.test_changes, *((plan.test_changes or ()) if plan is not None else ()))
    tests = compared[0] if compared else {}
    policy, mask = kernel.config().policy, kernel.redact.mask_secrets
    return behaviour_changes(kernel.git.objects, state, policy, planned=planned, tests=tests, mask=mask)


def _measured(runs: Mapping[str, RunSummary]) -> Mapping[str, Any]:
    """Return the coverage of the strongest run that measured any."""
    return next((runs[mode].coverage for mode in _MODES_COMPARED if mode in runs and runs[mode].coverage), {})


def _obligations(
    kernel: Kernel, view: Snapshot, state: FeatureState, runs: tuple[ReportedTests, ...]
) -> ObligationReview | None:
    try:
        spec = spec_text(kernel, state.feature_id)
    except FileNotFound:
        # The spec was replaced by something unreadable; the obligations of the plan are still known.
        spec = None
    return review_obligations(spec, view.get(ObligationLedger, state.feature_id), runs, kernel.redact.mask_secrets)


def _agent_text(kernel: Kernel, view: Snapshot, state: FeatureState, plan: Plan) -> AgentText:
    mask = kernel.redact.mask_secrets
    accepted = view.journal(feature_id=state.feature_id, kinds=("plan_accepted", "plan_revised"))
    return AgentText(
        written_by=[entry.event.actor for entry in accepted][-1],
        plan_version=plan.plan_version,
        summary=mask(plan.summary),
        acceptance_criteria=tuple(map(mask, plan.acceptance_criteria)),
        risk=tuple(map(mask, plan.risk or ())),
    )


def _evidence_links(state: FeatureState, run: RunSummary) -> EvidenceLinks:
    return copy_fields(
        EvidenceLinks,
        run,
        evidence_path=f"{folder_of(state.feature_id)}/evidence/{run.run_id}.json",
        log_paths=tuple(step.log_path for step in run.steps),
    )


def _approvals(
    view: Snapshot, state: FeatureState, config: Config, *, base: CommitId | None
) -> tuple[ApprovalFacts, ...]:
    given = [approval for approval in view.all(Approval) if approval.feature_id == state.feature_id]
    return tuple(
        copy_fields(ApprovalFacts, approval, void_because=tuple(void_reasons(approval, state, config, base=base)))
        for approval in sorted(given, key=lambda approval: (approval.approved_at, approval.approval_id))
    )


def _missing_for_merge(
    kernel: Kernel, view: Snapshot, state: FeatureState, approvals: tuple[ApprovalFacts, ...]
) -> tuple[MissingForMerge, ...]:
    """Run the checks of `feature.ready_to_merge`, and collect all refusals."""
    if state.status is Status.MERGED:
        return ()
    config = kernel.config()
    checks: list[Callable[[], object]] = [
        partial(require_status, state, Status.READY_TO_MERGE, to="be merged"),
        partial(refuse_empty, kernel, state),
        partial(check_locks, kernel, view, state),
        partial(proven_runs, view, state, config),
        partial(base_head, kernel, config),
        partial(_refuse_conflict, kernel, state),
        partial(_check_approved, state, config, approvals),
    ]
    refusals = [refusal for refusal in map(_refusal_of, checks) if refusal is not None]
    return tuple(_missing(kernel, refusal) for refusal in refusals)


def _missing(kernel: Kernel, refusal: Refusal) -> MissingForMerge:
    conflicts = refusal.facts.get("conflicts", []) if isinstance(refusal, MergeConflict) else []
    found: Any = mask_json(conflicts, kernel.redact.mask_secrets)
    return MissingForMerge(code=refusal.code, message=refusal.message, conflicts=tuple(found))


def _refuse_conflict(kernel: Kernel, state: FeatureState) -> None:
    conflict = conflict_now(kernel, state)
    if conflict is not None:
        raise conflict


def _refusal_of(check: Callable[[], object]) -> Refusal | None:
    try:
        check()
    except Refusal as refusal:
        return refusal
    return None


def _check_approved(state: FeatureState, config: Config, approvals: tuple[ApprovalFacts, ...]) -> None:
    if config.policy.merge_policy.require_user_approval and all(approval.void_because for approval in approvals):
        name = state.feature_id
        raise UserApprovalRequired(f"No person has approved `{name}` as it is now.", feature_id=name)


TOOLS = (
    Tool(
        name="report.feature_summary",
        summary="Return a feature's state, plan, diff stat, evidence, approvals, and what a merge still needs.",
        arguments=FeatureArguments,
        output=FeatureSummary,
        roles=READERS,
        run=feature_summary,
    ),
)
