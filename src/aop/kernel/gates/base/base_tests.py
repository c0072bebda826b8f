"""Base tests: the tests of the base, run as the base has them on a feature's code."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

import msgspec

from aop.core.errors import GateFailed, GateTimeout, Json, TransientExecFailure
from aop.core.ids import TreeId
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode, Step
from aop.kernel.config.policy import Policy
from aop.kernel.gates.base.test_files import changed_test_files, files_left_out, tree_with_base_tests
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import ExecutedGates, execute_gates, shared_identity
from aop.kernel.gates.reports.named_tests import lies_in
from aop.kernel.gates.reports.test_comparison import MOST_NAMES, Excuses, absent_names, excuses_of, told_names
from aop.kernel.gates.reports.verdict import WRONG_CANARIES, Reports
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.git import TreeChange
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import BaseTestsRun, GateRun, Subject, TestBaseline, TestComparison, Verdict

_PYTEST_OPTIONS = "PYTEST_ADDOPTS"
_COLLECT_ON = "--continue-on-collection-errors"
"""Without it one file of the base that cannot be imported keeps pytest from running all others."""
_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of the commit, so that a repeated run has the same one."""


def with_base_tests(call: Call, plan: GatePlan, run: GateRun, baseline: TestBaseline | None) -> GateRun:
    """Run the tests of the base on the feature's code where the policy asks for it, and add the verdict to a run.

    Raises: as `execute_gates`.
    """
    if run.verdict is not Verdict.PASS or plan.mode is Mode.FAST or "comparison" not in run.tests:
        return run
    objects = call.kernel.git.objects
    base = objects.tree_of(plan.subject.base_commit)
    changes = changed_test_files(objects, base, plan.subject.tree, plan.policy)
    wanted = plan.policy.gates.base_tests
    if baseline is None or wanted == "off" or (wanted == "changed" and not changes):
        return run
    left_out = files_left_out(changes, plan.test_changes)
    tree = tree_with_base_tests(objects, base, plan.subject.tree, changes, left_out)
    known = _known_run(call, plan, run, tree)
    excuses = excuses_of(objects, plan.subject.base_commit, plan.test_changes)
    if known is not None:
        changed = _changed_tests(known.failed, baseline, changes)
        return _judged(run, known, known.failed, plan.policy, changed=changed, excuses=excuses)
    executed = _execute(call, plan, tree)
    failed = absent_names(baseline.passed or (), executed.names.passed if executed.names else ())
    ran = BaseTestsRun(
        tree=tree,
        definition=plan.own_definition,
        steps=executed.run.steps,
        failed=failed[:MOST_NAMES],
        failed_count=len(failed),
        left_out=left_out,
    )
    if executed.run.failure_code in (GateTimeout.code, TransientExecFailure.code):
        why = f"With the tests of the base as the base has them: {executed.run.failure}"
        return _with(run, ran, failure_code=executed.run.failure_code, failure=why)
    changed = _changed_tests(failed, baseline, changes)
    judged = _judged(run, ran, failed, plan.policy, changed=changed, excuses=excuses)
    if judged.verdict is Verdict.PASS and not _is_believed(executed, baseline):
        why = f"With the tests of the base as the base has them: {WRONG_CANARIES}"
        return _with(run, ran, failure_code=GateFailed.code, failure=why)
    return judged


def _is_believed(executed: ExecutedGates, baseline: TestBaseline) -> bool:
    """Tell whether the canaries answered in a run in which tests passed, if they do on the base."""
    passes = executed.names is not None and bool(executed.names.passed)
    return bool(executed.run.tests.get("canaries")) or not baseline.canaries or not passes


def _execute(call: Call, plan: GatePlan, tree: TreeId) -> ExecutedGates:
    kernel = call.kernel
    call.report(f"{plan.feature_id}: {plan.mode} gates with the tests of the base, as the base has them")
    text = f"Tests of the base, for {plan.feature_id}\n"
    commit = kernel.git.objects.commit(tree, [plan.subject.base_commit], text, when=_WHEN)
    with kernel.git.worktrees.scratch(commit) as checkout:
        return execute_gates(call, _base_tests_plan(plan, tree), checkout)


def _base_tests_plan(plan: GatePlan, tree: TreeId) -> GatePlan:
    """Return the run of a feature's gates on another tree, of which only the test report is read."""
    return msgspec.structs.replace(
        plan,
        subject=Subject(tree=tree, base_commit=plan.subject.base_commit, definition=plan.own_definition),
        steps=tuple(map(_patient, plan.steps)),
        added=(),
        reports=Reports(tests=plan.reports.tests),
        test_changes=(),
        named_tests=(),
        keeps_going=True,
        lists_tests=False,
        set_up_tree=plan.subject.tree,
    )


def _patient(step: Step) -> Step:
    """Return a step in which pytest goes on after a file that it cannot import."""
    options = " ".join(filter(None, [step.env.get(_PYTEST_OPTIONS), _COLLECT_ON]))
    return msgspec.structs.replace(step, env={**step.env, _PYTEST_OPTIONS: options})


def _known_run(call: Call, plan: GatePlan, run: GateRun, tree: TreeId) -> BaseTestsRun | None:
    """Return an earlier run of the same steps on the same tree; a merge so needs none of its own."""
    with call.kernel.record.read() as view:
        state = view.get(FeatureState, plan.feature_id)
        earlier = [view.get(GateRun, each) for each in (state.evidence.latest_by_mode.values() if state else ())]
    for each in earlier:
        known = None if each is None else base_tests_of(each)
        if each is None or known is None or each.verdict is not Verdict.PASS:
            continue
        is_same = (known.tree, known.definition) == (tree, plan.own_definition)
        is_whole = len(known.failed) == known.failed_count
        is_here = shared_identity(each.machine) == shared_identity(run.machine)
        if is_same and is_whole and is_here and each.subject.base_commit == plan.subject.base_commit:
            return known
    return None


def base_tests_of(run: GateRun) -> BaseTestsRun | None:
    """Return the run of the base's tests that belongs to a gate run; None if they did not run."""
    compared = comparison_of(run)
    return compared.base_tests if compared else None


def comparison_of(run: GateRun) -> TestComparison | None:
    """Return the comparison of a run's tests with those of the base; None if there is none."""
    found = run.tests.get("comparison")
    return None if found is None else msgspec.convert(found, TestComparison)


def _judged(
    run: GateRun,
    ran: BaseTestsRun,
    failed: Sequence[str],
    policy: Policy,
    *,
    changed: AbstractSet[str],
    excuses: Excuses,
) -> GateRun:
    """Add the verdict: what does not pass must have been changed by the feature, and be named by its plan."""
    alone = [test for test in failed if test not in changed]
    log = next((step for step in ran.steps if step.outcome != "passed"), ran.steps[-1]).log_path
    if alone:
        why = (
            f"{count(len(alone), 'test')} of the base that this feature left alone, run as the base has them, did not"
            f" pass on its code: {told_names(alone)} (log: {log})."
        )
        return _with(run, ran, failure_code=GateFailed.code, failure=why)
    unnamed = excuses.unnamed(failed)
    if policy.testing.allow_fewer_tests:
        compared = comparison_of(run)
        unnamed = absent_names(unnamed, compared.removed if compared else ())
    if unnamed:
        why = (
            f"{count(len(unnamed), 'test')} of the base, run as the base has them, did not pass on the code of this"
            f" feature: {told_names(unnamed)} (log: {log}). A change of behaviour is named in `test_changes` of the"
            " plan, with the reason."
        )
        return _with(run, ran, failure_code=GateFailed.code, failure=why)
    return _with(run, ran)


def _changed_tests(failed: Sequence[str], baseline: TestBaseline, changes: Sequence[TreeChange]) -> frozenset[str]:
    """Return the tests whose file a feature changed; all of them if it changed a helper, which any may use."""
    if not failed:
        return frozenset()
    changed = [change.path for change in changes if change.old is not None]
    if any(not any(lies_in(test, path) for test in (*(baseline.passed or ()), *baseline.failed)) for path in changed):
        return frozenset(failed)
    return frozenset(test for test in failed if any(lies_in(test, path) for path in changed))


def _with(run: GateRun, ran: BaseTestsRun, *, failure_code: str = "", failure: str = "") -> GateRun:
    comparison: Json = {**run.tests["comparison"], "base_tests": msgspec.to_builtins(ran)}
    return msgspec.structs.replace(
        run,
        tests={**run.tests, "comparison": comparison},
        verdict=Verdict.FAIL if failure_code else run.verdict,
        failure_code=failure_code,
        failure=failure,
    )
