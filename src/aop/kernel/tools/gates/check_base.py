"""Tool `gates.check_base`: whether work can begin on the base branch as it is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.core.errors import BaseBranchUnusable, BaseGatesFail
from aop.core.ids import CommitId, FeatureId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.base.base_verdicts import (
    PROFILE,
    base_plan,
    known_verdict,
    refuse_empty_gates,
    run_on_base,
    store_verdict,
    used_profiles,
    verdict_key,
)
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import decisive_step, evidence_pointers, machine_identity, shared_identity
from aop.kernel.gateway.calls import Answer, Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.gate_runs import BaseVerdict, GateRun, Verdict
from aop.kernel.record.port import Transaction


class CheckBaseArguments(Arguments, frozen=True, kw_only=True):
    anyway: bool = False
    """Accept gates that fail on the base branch; the record names who did."""
    features: tuple[FeatureId, ...] = ()
    """The features that a run begins with. If one has no plan yet, every profile is checked; otherwise `default` and
    the profiles of features that are being built."""


class BaseCheck(Struct, frozen=True, kw_only=True):
    base_branch: str
    commit: str
    """The commit of the base branch that was checked."""
    mode: Mode
    profiles: tuple[str, ...]
    """The profiles that were checked; of several that are equal, the first."""
    passed: bool
    """Whether the gates pass on it."""
    failure: str
    """Why they fail, which a person accepted; empty if they pass."""
    known: bool
    """True when nothing ran, because the verdicts were known."""


def check_base(call: Call, arguments: CheckBaseArguments) -> Outcome:
    """Run the fast gates on the base branch, unless they passed or were accepted there before."""
    config = call.kernel.config()
    refuse_empty_gates(config)
    branch = config.policy.worktree.base_branch
    head = call.kernel.git.branches.head(branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{branch}` has no commit.", base_branch=branch)
    with call.kernel.record.read() as view:
        profiles = used_profiles(view, config, arguments.features)
    plans, runs = _different_plans(call, config, head, profiles), list[GateRun]()
    for plan in plans:
        if _known(call, plan, anyway=arguments.anyway) is None:
            runs.append(_measure(call, branch, plan))
            if runs[-1].verdict is not Verdict.PASS and not arguments.anyway:
                return call.commit(lambda tx: _refuse(tx, call, branch, runs[-1]))
    return call.commit(lambda tx: _accept(tx, call, plans, runs))


def _different_plans(call: Call, config: Config, head: CommitId, profiles: Sequence[str]) -> list[GatePlan]:
    """Return the fast gates of profiles; of several that are equal, the first."""
    plans: dict[str, GatePlan] = {}
    for name in profiles:
        plan = base_plan(call, config, head, name, Mode.FAST)
        plans.setdefault(plan.subject.definition, plan)
    return list(plans.values())


def _known(call: Call, plan: GatePlan, *, anyway: bool) -> BaseVerdict | None:
    """Return a verdict that is used again: a failure only if a person accepts it, since its cause may be gone."""
    with call.kernel.record.read() as view:
        known = known_verdict(view, plan.subject)
    if known is None:
        return None
    if not known.passed:
        return known if anyway or known.accepted_by else None
    return known if shared_identity(known.machine) == machine_identity(call, plan) else None


def _measure(call: Call, branch: str, plan: GatePlan) -> GateRun:
    """Run gates on the base branch; a pass is stored at once, whatever the next profile brings."""
    call.report(f"Running the {_gates(plan.profile_name)} on {branch} once, to see that work can begin")
    run = run_on_base(call, plan)
    if run.verdict is Verdict.PASS:
        with call.kernel.record.write() as tx:
            _store(tx, call, run)
    return run


def _store(tx: Transaction, call: Call, run: GateRun, *, accepted_by: str = "") -> None:
    store_verdict(tx, run, accepted_by=accepted_by)
    tx.append(
        call.event(
            "base_gates_ran",
            None,
            commit=run.subject.base_commit,
            profile=run.profile,
            mode=run.mode,
            verdict=run.verdict,
            failure=run.failure,
            accepted_by=accepted_by,
        )
    )


def _refuse(tx: Transaction, call: Call, branch: str, run: GateRun) -> Outcome:
    _store(tx, call, run)
    return BaseGatesFail(
        f"The {_gates(run.profile)} fail on {branch} itself. {run.failure}",
        base_branch=branch,
        commit=run.subject.base_commit,
        profile=run.profile,
        mode=run.mode,
        step=decisive_step(run).name,
    ).with_evidence(**evidence_pointers(run))


def _accept(tx: Transaction, call: Call, plans: Sequence[GatePlan], runs: Sequence[GateRun]) -> Outcome:
    """Store the failures that a person accepts, new ones and known ones."""
    for run in runs:
        if run.verdict is not Verdict.PASS:
            _store(tx, call, run, accepted_by=call.principal.actor)
    verdicts = [known for plan in plans if (known := known_verdict(tx, plan.subject)) is not None]
    for plan, known in zip(plans, verdicts, strict=True):
        if not known.passed and not known.accepted_by:
            tx.put(revise(known, accepted_by=call.principal.actor), verdict_key(plan.subject))
            tx.append(call.event("failing_base_accepted", None, commit=plan.subject.base_commit, failure=known.failure))
    found = BaseCheck(
        base_branch=plans[0].policy.worktree.base_branch,
        commit=plans[0].subject.base_commit,
        mode=Mode.FAST,
        profiles=tuple(plan.profile_name for plan in plans),
        passed=all(known.passed for known in verdicts),
        failure=" ".join(known.failure for known in verdicts if not known.passed),
        known=not runs,
    )
    return Answer(data=found, evidence=evidence_pointers(runs[-1])) if runs else found


def _gates(profile: str) -> str:
    return f"{Mode.FAST} gates" if profile == PROFILE else f"{Mode.FAST} gates of the profile `{profile}`"


TOOLS = (
    Tool(
        name="gates.check_base",
        summary="Check that the gates have steps, and pass on the base branch itself, before agents begin.",
        arguments=CheckBaseArguments,
        output=BaseCheck,
        roles=COORDINATORS,
        run=check_base,
        mutates=True,
        person_only=True,
    ),
)
