"""Tools that show a feature for review, from trees and from the record, never from what an agent says of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate

import msgspec
from msgspec import Struct

from aop.core.errors import FileNotFound, Refusal, UserApprovalRequired
from aop.core.ids import CommitId
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import must_be
from aop.kernel.features.opened_paths import PathAnswer, path_answers
from aop.kernel.gateway.calls import Call, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.merges.merge import base_head, check_locks, proven_runs, refuse_empty, void_reasons
from aop.kernel.patches.diff_parts import DiffPart, parts_by_path
from aop.kernel.plans.obligations.accounting import ReportedTests
from aop.kernel.plans.obligations.review import ObligationReview, reviewed
from aop.kernel.ports.git import FileMode, TreeChange
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.documents.usage import FeatureUsage, Spending
from aop.kernel.record.port import Snapshot
from aop.kernel.record.projections import folder_of
from aop.kernel.record.spending import spent_on
from aop.kernel.tools.feature.specs import spec_text
from aop.kernel.tools.gates.evidence import RunSummary, latest_runs, reported
from aop.kernel.tools.repo.read import LARGEST_DIFF, ChangedFile, changed_files

LARGEST_FILE_DIFF = 1024 * 1024
"""One file that is larger does not take the place of all others."""

# --- repo.diff_bundle ----------------------------------------------------------------------------


class TouchedFile(ChangedFile, frozen=True, kw_only=True):
    """One path that differs between base and tree; a renamed file is one that is gone and one that is new."""

    old_mode: FileMode | None
    new_mode: FileMode | None
    binary: bool
    added: int
    removed: int
    first_line: int
    """Which line of `diff` its part begins at, counted from 0."""
    shown_lines: int
    left_out_lines: int
    """How many further lines its part has; `repo.diff` with this path shows them."""


class DiffBundle(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    tree: str
    base_commit: str
    diff_stat: str
    diff: str
    """The parts of all files, one below the other."""
    truncated: bool
    added: int
    removed: int
    files: tuple[TouchedFile, ...]
    gates: Mapping[str, RunSummary]
    """The newest run of each mode that has run; one that is not `current` proves nothing of this tree."""


def diff_bundle(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return everything that a reviewer reads: the diff file by file, and what the gates say of this very tree."""
    git, mask = call.kernel.git, call.kernel.redact.mask_secrets
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        gates = latest_runs(call.kernel, view, state)
    base = git.objects.tree_of(state.base_commit)
    changes = git.objects.changes(base, state.tree)
    parts = parts_by_path(git.objects.diff(base, state.tree), [change.path for change in changes])
    lines: list[str] = []
    room = LARGEST_DIFF
    files = []
    for change in changes:
        whole = mask(parts[change.path].text.decode(errors="replace")).split("\n")[:-1]
        shown = _first_lines(whole, min(room, LARGEST_FILE_DIFF))
        room -= sum(map(len, shown)) + len(shown)
        files.append(_touched(change, parts[change.path], lines, shown=len(shown), left_out=len(whole) - len(shown)))
        lines += shown
    return DiffBundle(
        feature_id=state.feature_id,
        version=state.version,
        tree=state.tree,
        base_commit=state.base_commit,
        diff_stat=mask(git.objects.diff_stat(base, state.tree)),
        diff="".join(f"{line}\n" for line in lines),
        truncated=any(file.left_out_lines for file in files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
        files=tuple(files),
        gates=gates,
    )


def _first_lines(lines: list[str], room: int) -> list[str]:
    return lines[: bisect_right(list(accumulate(len(line) + 1 for line in lines)), room)]


def _touched(change: TreeChange, part: DiffPart, before: list[str], *, shown: int, left_out: int) -> TouchedFile:
    return msgspec.convert(
        {
            "path": change.path,
            "kind": change.kind,
            "old_mode": change.old.mode if change.old else None,
            "new_mode": change.new.mode if change.new else None,
            "binary": part.binary,
            "added": part.added,
            "removed": part.removed,
            "first_line": len(before),
            "shown_lines": shown,
            "left_out_lines": left_out,
        },
        TouchedFile,
    )


# --- report.feature_summary ----------------------------------------------------------------------


class AgentText(Struct, frozen=True, kw_only=True):
    """What the planner wrote. AOP checked its form, and not whether it is true."""

    written_by: str
    plan_version: int
    summary: str
    acceptance_criteria: tuple[str, ...]
    risk: tuple[str, ...]


class EvidenceLinks(Struct, frozen=True, kw_only=True):
    """Where the proof of one gate run lies, from the repository's root."""

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
    """Empty while the approval opens a merge."""


class Missing(Struct, frozen=True, kw_only=True):
    """One reason why a merge would be refused now."""

    code: str
    message: str


class FeatureSummary(Struct, frozen=True, kw_only=True):
    state: FeatureState
    base_branch: str
    base_head: str | None
    """Where the base branch is now; it may have moved since the feature was cut."""
    agent_text: AgentText | None
    diff_stat: str
    changed_files: tuple[ChangedFile, ...]
    evidence: tuple[EvidenceLinks, ...]
    approvals: tuple[ApprovalFacts, ...]
    spent: Spending
    """What the turns on the feature cost, all roles together."""
    spent_by_role: Mapping[str, Spending]
    missing: tuple[Missing, ...]
    """What stands between the feature and a merge; conflicts and the gates of the merged tree show only there."""
    obligations: ObligationReview | None
    """What the spec demands, and what became of each; null when there never was a spec."""
    path_answers: tuple[PathAnswer, ...]
    """The guarded paths that workers asked a person for, and what the person said."""


def feature_summary(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return where a feature is, what it changes, what proves it, and what is missing before it can be merged."""
    kernel, config = call.kernel, call.kernel.config()
    branch = config.policy.worktree.base_branch
    head = kernel.git.branches.head(branch)
    with kernel.record.read() as view:
        state = the_feature(view, arguments)
        accepted = view.get(AcceptedPlan, state.feature_id)
        approvals = _approvals(view, state, config, base=head)
        base = kernel.git.objects.tree_of(state.base_commit)
        usage = view.get(FeatureUsage, state.feature_id)
        runs = latest_runs(kernel, view, state).values()
        return FeatureSummary(
            state=state,
            base_branch=branch,
            base_head=head,
            agent_text=_agent_text(kernel, view, state, accepted.plan) if accepted else None,
            diff_stat=kernel.redact.mask_secrets(kernel.git.objects.diff_stat(base, state.tree)),
            changed_files=changed_files(kernel.git.objects.changes(base, state.tree)),
            evidence=tuple(_links(state, run) for run in runs),
            approvals=approvals,
            spent=spent_on(usage),
            spent_by_role={} if usage is None else usage.roles,
            missing=_missing(kernel, view, state, approvals),
            obligations=_obligations(kernel, view, state, reported(runs, state)),
            path_answers=path_answers(view, state.feature_id),
        )


def _obligations(
    kernel: Kernel, view: Snapshot, state: FeatureState, runs: tuple[ReportedTests, ...]
) -> ObligationReview | None:
    try:
        spec = spec_text(kernel, state.feature_id)
    except FileNotFound:
        # Something else lies where the spec was: what the plan was made for is still known.
        spec = None
    return reviewed(spec, view.get(ObligationLedger, state.feature_id), runs, kernel.redact.mask_secrets)


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


def _links(state: FeatureState, run: RunSummary) -> EvidenceLinks:
    return EvidenceLinks(
        mode=run.mode,
        run_id=run.run_id,
        verdict=run.verdict,
        current=run.current,
        evidence_path=f"{folder_of(state.feature_id)}/evidence/{run.run_id}.json",
        log_paths=tuple(step.log_path for step in run.steps),
    )


def _approvals(
    view: Snapshot, state: FeatureState, config: Config, *, base: CommitId | None
) -> tuple[ApprovalFacts, ...]:
    given = [approval for approval in view.all(Approval) if approval.feature_id == state.feature_id]
    return tuple(
        ApprovalFacts(
            approval_id=approval.approval_id,
            tree=approval.tree,
            base=approval.base,
            approved_by=approval.approved_by,
            approved_at=approval.approved_at,
            void_because=tuple(void_reasons(approval, state, config, base=base)),
        )
        for approval in sorted(given, key=lambda approval: (approval.approved_at, approval.approval_id))
    )


def _missing(
    kernel: Kernel, view: Snapshot, state: FeatureState, approvals: tuple[ApprovalFacts, ...]
) -> tuple[Missing, ...]:
    """Ask whatever `feature.ready_to_merge` asks before it begins, and collect every no."""
    if state.status is Status.MERGED:
        return ()
    config = kernel.config()
    checks: list[Callable[[], object]] = [
        partial(must_be, state, Status.READY_TO_MERGE, to="be merged"),
        partial(refuse_empty, kernel, state),
        partial(check_locks, kernel, view, state),
        partial(proven_runs, view, state, config),
        partial(base_head, kernel, config),
        partial(_check_approved, state, config, approvals),
    ]
    refusals = [refusal for refusal in map(_refusal_of, checks) if refusal is not None]
    return tuple(Missing(code=refusal.code, message=refusal.message) for refusal in refusals)


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
        name="repo.diff_bundle",
        summary="Show the feature for review: every file with its diff and counts, and the newest gates.",
        arguments=FeatureArguments,
        output=DiffBundle,
        roles=READERS,
        run=diff_bundle,
    ),
    Tool(
        name="report.feature_summary",
        summary="Return a feature's state, plan, diff stat, evidence, approvals and what is missing before a merge.",
        arguments=FeatureArguments,
        output=FeatureSummary,
        roles=READERS,
        run=feature_summary,
    ),
)
