"""Baselines: the tests that run on a commit of the base, measured once."""

from __future__ import annotations

import msgspec

from aop.core.errors import GateTimeout, TransientExecFailure
from aop.core.ids import CommitId
from aop.kernel.gates.base.base_verdicts import execute_on_base, store_verdict
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.reports.test_comparison import TestNames
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.gate_runs import GateRun, TestBaseline
from aop.kernel.record.port import Snapshot, Transaction

_CUT_SHORT = (GateTimeout.code, TransientExecFailure.code)


def tests_on_base(call: Call, plan: GatePlan) -> TestBaseline | None:
    """Return the tests that the plan's steps run on its base, measured there once; None without a test report."""
    if plan.reports.tests is None:
        return None
    base, definition = plan.subject.base_commit, plan.own_definition or plan.subject.definition
    with call.kernel.record.read() as view:
        known = _known(view, base, definition)
    if known is not None:
        return known
    call.report(f"{plan.feature_id}: {plan.mode} gates on the base first, to learn its tests")
    subject = msgspec.structs.replace(plan.subject, tree=call.kernel.git.objects.tree_of(base), definition=definition)
    # Modes with the same steps share it, so the tests are listed whether or not this one lists them.
    measured = msgspec.structs.replace(plan, subject=subject, added=(), test_changes=(), lists_tests=True)
    executed = execute_on_base(call, measured)
    with call.kernel.record.write() as tx:
        store_baseline(tx, base, definition, executed.run, executed.names)
        store_verdict(tx, executed.run)
    return _baseline(base, definition, executed.run, executed.names)


def store_baseline(tx: Transaction, commit: CommitId, definition: str, run: GateRun, names: TestNames | None) -> None:
    """Store the tests that ran on a commit of the base branch, unless the run was cut short."""
    if run.failure_code not in _CUT_SHORT and _known(tx, commit, definition) is None:
        key = _key(commit, definition)
        baseline = _baseline(commit, definition, run, names)
        tx.put(msgspec.structs.replace(baseline, version=next_version(tx.get(TestBaseline, key))), key)


def _known(view: Snapshot, commit: CommitId, definition: str) -> TestBaseline | None:
    """Return a recorded baseline, unless it is from before names were compared."""
    known = view.get(TestBaseline, _key(commit, definition))
    return None if known is None or (known.ran is not None and known.passed is None) else known


def _baseline(commit: CommitId, definition: str, run: GateRun, names: TestNames | None) -> TestBaseline:
    return TestBaseline(
        version=1,
        commit=commit,
        definition=definition,
        ran=run.tests.get("ran"),
        passed=names.passed if names else (),
        failed=names.failed if names else (),
        canaries=bool(run.tests.get("canaries")),
        listed=bool(run.tests.get("listed")),
    )


def _key(commit: CommitId, definition: str) -> str:
    return f"{commit}:{definition}"
