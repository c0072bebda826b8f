"""Tool `gates.check_base`: whether work can begin on the base branch as it is."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import BaseBranchUnusable, BaseGatesFail
from aop.core.ids import CommitId
from aop.kernel.config.gates import Mode
from aop.kernel.gates.base_verdicts import (
    PROFILE,
    base_plan,
    known_verdict,
    refuse_empty_gates,
    run_on_base,
    store_verdict,
    verdict_key,
)
from aop.kernel.gates.gate_runs import GatePlan, decisive_step, evidence_pointers, machine_identity, shared_identity
from aop.kernel.gateway.calls import Answer, Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.gate_runs import BaseVerdict, GateRun, Verdict
from aop.kernel.record.port import Transaction


class CheckBaseArguments(Arguments, frozen=True, kw_only=True):
    anyway: bool = False
    """Accept gates that fail on the base branch; the record names who did."""


class BaseCheck(Struct, frozen=True, kw_only=True):
    base_branch: str
    commit: str
    """The commit of the base branch that was checked."""
    mode: Mode
    passed: bool
    """Whether the gates pass on it."""
    failure: str
    """Why they fail, which a person accepted; empty if they pass."""
    known: bool
    """True when nothing ran, because the verdict was known."""


def check_base(call: Call, arguments: CheckBaseArguments) -> Outcome:
    """Run the fast gates on the base branch, unless they passed or were accepted there before."""
    config = call.kernel.config()
    refuse_empty_gates(config)
    branch = config.policy.worktree.base_branch
    head = call.kernel.git.branches.head(branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{branch}` has no commit.", base_branch=branch)
    plan = base_plan(call, config, head, PROFILE, Mode.FAST)
    with call.kernel.record.read() as view:
        known = known_verdict(view, plan.subject)
    if known is not None and _is_used_again(call, plan, known, anyway=arguments.anyway):
        return call.commit(lambda tx: _reuse(tx, call, plan, known))
    call.report(f"Running the {Mode.FAST} gates on {branch} once, to see that work can begin")
    run = run_on_base(call, plan)
    return call.commit(lambda tx: _record(tx, call, branch, run, anyway=arguments.anyway))


def _is_used_again(call: Call, plan: GatePlan, known: BaseVerdict, *, anyway: bool) -> bool:
    """Tell whether a verdict is used again: a failure only if a person accepts it, since its cause may be gone."""
    if not known.passed:
        return anyway or bool(known.accepted_by)
    return shared_identity(known.machine) == machine_identity(call, plan)


def _reuse(tx: Transaction, call: Call, plan: GatePlan, known: BaseVerdict) -> Outcome:
    if not known.passed and not known.accepted_by:
        tx.put(revise(known, accepted_by=call.principal.actor), verdict_key(plan.subject))
        tx.append(call.event("failing_base_accepted", None, commit=plan.subject.base_commit, failure=known.failure))
    branch = plan.policy.worktree.base_branch
    return _result(branch, plan.subject.base_commit, passed=known.passed, failure=known.failure, known=True)


def _record(tx: Transaction, call: Call, branch: str, run: GateRun, *, anyway: bool) -> Outcome:
    passed = run.verdict is Verdict.PASS
    accepted_by = call.principal.actor if anyway and not passed else ""
    store_verdict(tx, run, accepted_by=accepted_by)
    tx.append(
        call.event(
            "base_gates_ran",
            None,
            commit=run.subject.base_commit,
            mode=run.mode,
            verdict=run.verdict,
            failure=run.failure,
            accepted_by=accepted_by,
        )
    )
    if not passed and not anyway:
        step = decisive_step(run)
        return BaseGatesFail(
            f"The {run.mode} gates fail on {branch} itself. {run.failure}",
            base_branch=branch,
            commit=run.subject.base_commit,
            mode=run.mode,
            step=step.name,
        ).with_evidence(**evidence_pointers(run))
    found = _result(branch, run.subject.base_commit, passed=passed, failure=run.failure, known=False)
    return Answer(data=found, evidence=evidence_pointers(run))


def _result(branch: str, commit: CommitId, *, passed: bool, failure: str, known: bool) -> BaseCheck:
    return BaseCheck(
        base_branch=branch, commit=commit, mode=Mode.FAST, passed=passed, failure="" if passed else failure, known=known
    )


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
