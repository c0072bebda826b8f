"""Baselines: how many tests run on a commit of the base, measured once."""

from __future__ import annotations

import msgspec

from aop.core.errors import GateTimeout, TransientExecFailure
from aop.core.ids import CommitId
from aop.kernel.gates.base_verdicts import run_on_base, store_verdict
from aop.kernel.gates.gate_runs import GatePlan
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.gate_runs import GateRun, TestBaseline
from aop.kernel.record.port import Transaction


def tests_on_base(call: Call, plan: GatePlan) -> int | None:
    """Return how many tests the plan's steps run on its base, measured there once; None without a test report."""
    if plan.reports.tests is None:
        return None
    base = plan.subject.base_commit
    with call.kernel.record.read() as view:
        known = view.get(TestBaseline, _key(base, plan.subject.definition))
    if known is not None:
        return known.ran
    call.report(f"{plan.feature_id}: {plan.mode} gates on the base first, to count its tests")
    subject = msgspec.structs.replace(plan.subject, tree=call.kernel.git.objects.tree_of(base))
    run = run_on_base(call, msgspec.structs.replace(plan, subject=subject))
    with call.kernel.record.write() as tx:
        store_baseline(tx, base, run)
        store_verdict(tx, run)
    return run.tests.get("ran")


def store_baseline(tx: Transaction, commit: CommitId, run: GateRun) -> None:
    """Store how many tests ran on a commit of the base branch, unless the run was cut short."""
    definition = run.subject.definition
    if run.failure_code in (GateTimeout.code, TransientExecFailure.code):
        return
    if tx.get(TestBaseline, _key(commit, definition)) is None:
        baseline = TestBaseline(version=1, commit=commit, definition=definition, ran=run.tests.get("ran"))
        tx.put(baseline, _key(commit, definition))


def _key(commit: CommitId, definition: str) -> str:
    return f"{commit}:{definition}"
