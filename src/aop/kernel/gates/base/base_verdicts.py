"""Base verdicts: whether the gates pass on the base branch itself, measured once."""

from __future__ import annotations

from collections.abc import Sequence

from aop.core.errors import NoGateSteps
from aop.core.ids import CommitId, FeatureId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import ExecutedGates, execute_gates
from aop.kernel.gates.reports.verdict import reports_of
from aop.kernel.gates.steps import definition_of, effective_steps, missing_steps, profile_named
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import BaseVerdict, GateRun, Subject, Verdict
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot, Transaction

PROFILE = "default"
"""The profile that every feature begins with."""
LOGS = ".aop/base"
_NO_FEATURE = FeatureId("base")
_UNPROVEN = (Status.BUILDING, Status.QA, Status.BLOCKED)


def used_profiles(view: Snapshot, config: Config, new: Sequence[FeatureId]) -> tuple[str, ...]:
    """Return the profiles that a run may use: those of accepted plans, and any with fast gates if a plan is missing."""
    planned = {each.feature_id: each for each in view.all(FeatureState) if view.get(AcceptedPlan, each.feature_id)}
    used = [each.gate_profile for name, each in planned.items() if name in new or each.status in _UNPROVEN]
    if not all(name in planned for name in new):
        used += [name for name, profile in config.gates.profiles.items() if profile.modes.steps(Mode.FAST)]
    used += [row.profile for row in config.policy.gates.required]
    return tuple(dict.fromkeys([PROFILE, *(name for name in used if name in config.gates.profiles)]))


def refuse_empty_gates(config: Config) -> None:
    """Refuse to start work that no gate could prove. Raises: NoGateSteps."""
    lacking = list(missing_steps(config, (PROFILE,)))
    if lacking:
        raise NoGateSteps(
            f"No feature can be proven: {'; '.join(lacking)}.",
            hint="Write your test commands into `agentic/orchestrator/gates.yaml` and commit it. `aop init` proposes"
            " them; `aop doctor --gates` tries them.",
            profile=PROFILE,
        )


def base_plan(
    call: Call, config: Config, head: CommitId, profile_name: str, mode: Mode, *, logs: str = LOGS
) -> GatePlan:
    """Return the gate run that proves a commit of the base branch itself."""
    profile = profile_named(config.gates, profile_name)
    steps = effective_steps(profile_name, profile, mode, None, config.policy)
    return GatePlan(
        feature_id=_NO_FEATURE,
        profile_name=profile_name,
        profile=profile,
        mode=mode,
        steps=steps,
        reports=reports_of(profile_name, profile, mode, config.policy),
        subject=Subject(
            tree=call.kernel.git.objects.tree_of(head),
            base_commit=head,
            definition=definition_of(steps, profile, config.policy),
        ),
        policy=config.policy,
        config_hash=config.hash,
        logs=logs,
    )


def run_on_base(call: Call, plan: GatePlan) -> GateRun:
    """Run gates in a scratch checkout of their base commit. Raises: as `execute_gates`."""
    return execute_on_base(call, plan).run


def execute_on_base(call: Call, plan: GatePlan) -> ExecutedGates:
    """Run gates as `run_on_base` does, and return the names of their tests as well."""
    with call.kernel.git.worktrees.scratch(plan.subject.base_commit) as checkout:
        return execute_gates(call, plan, checkout)


def verdict_key(subject: Subject) -> str:
    """Return the key of the verdict on a tree of the base branch and a definition."""
    return f"{subject.tree}:{subject.definition}"


def known_verdict(view: Snapshot, subject: Subject) -> BaseVerdict | None:
    """Return the recorded verdict on a tree of the base branch and a definition."""
    return view.get(BaseVerdict, verdict_key(subject))


def store_verdict(tx: Transaction, run: GateRun, *, accepted_by: str = "") -> None:
    """Store the verdict of a run on the base branch; a person may accept one that failed."""
    key = verdict_key(run.subject)
    known = tx.get(BaseVerdict, key)
    verdict = BaseVerdict(
        version=next_version(known),
        tree=run.subject.tree,
        definition=run.subject.definition,
        passed=run.verdict is Verdict.PASS,
        failure=run.failure,
        machine=run.machine,
        accepted_by=accepted_by,
    )
    if known is None or not _is_same(known, verdict):
        tx.put(verdict, key)


def store_merged_verdicts(tx: Transaction, state: FeatureState, merged: GateRun) -> None:
    """Store what is known of a merged tree, so that the next run need not measure it again."""
    earlier = [tx.get(GateRun, run_id) for run_id in state.evidence.latest_by_mode.values()]
    for run in (merged, *earlier):
        if run is not None and run.subject.tree == merged.subject.tree and run.verdict is Verdict.PASS:
            store_verdict(tx, run)


def _is_same(known: BaseVerdict, verdict: BaseVerdict) -> bool:
    return (known.passed, known.machine, known.accepted_by, known.failure) == (
        verdict.passed,
        verdict.machine,
        verdict.accepted_by,
        verdict.failure,
    )
