"""Tool `gates.run`: one mode of a feature's gates, run on its tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.core.errors import EvidenceStale, InvalidOverridePrecedence
from aop.core.structs import copy_fields
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import LIVING, require_status, store_feature, with_status
from aop.kernel.features.requests.change_requests import open_requests
from aop.kernel.features.worktree_hold import held_worktree, note_quarantined
from aop.kernel.gates import gate_runs
from aop.kernel.gates.base.base_tests import with_base_tests
from aop.kernel.gates.base.baselines import tests_on_base
from aop.kernel.gates.execution.gate_orders import execute_on_worker
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.progress import GATES_RUN, with_progress
from aop.kernel.gates.steps import with_verdict
from aop.kernel.gateway.calls import Answer, Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import GATE_RUNNERS
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, TestBaseline, Verdict
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot, Transaction


class RunGatesArguments(ChangeArguments, frozen=True, kw_only=True):
    mode: Mode
    profile: str | None = None
    force: bool = False
    """Run again even if the same gates already passed on the same tree."""


class GateResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    gate_run_id: str
    profile: str
    mode: Mode
    verdict: Verdict
    status: Status
    tree: str
    steps: tuple[StepResult, ...]
    coverage: Mapping[str, Any]
    tests: Mapping[str, Any]
    findings: tuple[str, ...]
    sandbox_level: str
    reused: bool
    """True when nothing ran, because the same gates passed on the same tree before."""


def run(call: Call, arguments: RunGatesArguments) -> Outcome:
    """Run a mode of the feature's gate profile on its tree; a pass moves the feature on."""
    kernel = call.kernel
    call = with_progress(call, arguments.feature_id, arguments.mode)
    with held_worktree(kernel, arguments.feature_id):
        config = kernel.config()
        with kernel.record.read() as view:
            state = the_feature(view, arguments)
            accepted = view.get(AcceptedPlan, state.feature_id)
            ledger = view.get(ObligationLedger, state.feature_id)
        require_status(state, *LIVING, to="run gates")
        _refuse_other_profile(state, arguments)
        gate_runs.refuse_escaped_profile(kernel, state, config, base=state.base_commit, tree=state.tree)
        plan = gate_runs.plan_gates(state, accepted.plan if accepted else None, arguments.mode, config)
        plan = gate_runs.with_named_tests(plan, ledger)
        passed = None if arguments.force else _earlier_pass(call, state, plan)
        finished = passed if passed is not None and _is_of_here(call, plan, passed) else None
        finished = finished or _run_anywhere(call, state, plan, passed)
        record = _record_reuse if finished is passed else _record
        outcome = call.commit(lambda tx: record(tx, call, arguments, finished))
        if kernel.gate_workers is not None:
            kernel.gate_workers.forget(call.operation())
        return outcome


def _refuse_other_profile(state: FeatureState, arguments: RunGatesArguments) -> None:
    """Refuse another profile: a caller must not choose what a pass proves."""
    if arguments.profile not in (None, state.gate_profile):
        raise InvalidOverridePrecedence(
            f"The gates of `{state.feature_id}` are those of the profile `{state.gate_profile}`,"
            f" not `{arguments.profile}`.",
            profile=state.gate_profile,
            asked_for=arguments.profile,
        )


def _run_anywhere(call: Call, state: FeatureState, plan: GatePlan, passed: GateRun | None) -> GateRun:
    """Run the gates on a worker, or here where they must stay or no worker can take them; return them, or `passed`."""
    baseline, workers = tests_on_base(call, plan), call.kernel.gate_workers
    executed = None if workers is None else execute_on_worker(call, workers, plan, baseline=baseline, passed=passed)
    if executed is not None and executed.run is passed:
        return passed
    finished = executed.run if executed is not None else _run_in_worktree(call, state, plan, baseline)
    return with_base_tests(call, plan, finished, baseline)


def _run_in_worktree(call: Call, state: FeatureState, plan: GatePlan, baseline: TestBaseline | None) -> GateRun:
    git = call.kernel.git
    checkout = git.worktrees.ensure(state.feature_id, state.branch)
    note_quarantined(call, state.feature_id, git.worktrees.clear_strays(state.feature_id, state.tree))
    try:
        return gate_runs.execute_gates(call, plan, checkout, baseline=baseline).run
    finally:
        # Files that the steps left must not affect the next run.
        git.worktrees.discard_strays(state.feature_id, state.tree)


def _record(tx: Transaction, call: Call, arguments: RunGatesArguments, finished: GateRun) -> Outcome:
    state, config = the_feature(tx, arguments), call.kernel.config()
    _refuse_stale(tx, config, state, finished)
    stored = gate_runs.record_run(tx, call, state, _advance(tx, config, state, finished), finished)
    if finished.verdict is not Verdict.PASS:
        return gate_runs.gate_failure(finished)
    return Answer(data=_result(stored, finished, reused=False), evidence=gate_runs.evidence_pointers(finished))


def _earlier_pass(call: Call, state: FeatureState, plan: GatePlan) -> GateRun | None:
    """Return the newest run of this mode, if it passed with the same subject, on any machine."""
    run_id = state.evidence.latest_by_mode.get(plan.mode)
    with call.kernel.record.read() as view:
        run = view.get(GateRun, run_id) if run_id else None
    if run is None or run.verdict is not Verdict.PASS or run.subject != plan.subject:
        return None
    if not run.tests.get("named", {}).keys() >= set(plan.named_tests):
        # That run did not look up these tests, and its report is gone.
        return None
    return run


def _is_of_here(call: Call, plan: GatePlan, passed: GateRun) -> bool:
    """Tell whether a run passed on a machine like this one."""
    checkout = call.kernel.git.worktrees.path(plan.feature_id)
    return passed.machine == gate_runs.machine_identity(call, plan, checkout)


def _record_reuse(tx: Transaction, call: Call, arguments: RunGatesArguments, passed: GateRun) -> Outcome:
    state, config = the_feature(tx, arguments), call.kernel.config()
    _refuse_stale(tx, config, state, passed)
    after = _advance(tx, config, state, passed)
    stored = state if after == state else store_feature(tx, state, after, now=call.kernel.now())
    tx.append(
        call.event("gates_reused", stored.feature_id, gate_run_id=passed.run_id, mode=passed.mode, status=stored.status)
    )
    return Answer(data=_result(stored, passed, reused=True), evidence=gate_runs.evidence_pointers(passed))


def _advance(view: Snapshot, config: Config, state: FeatureState, run: GateRun) -> FeatureState:
    """Return the feature with a run's verdict, in the status that follows if nothing is left to be built."""
    after = with_verdict(state, run)
    # The statuses that a pass leads to (AOP-242, AOP-249, AOP-250).
    advances = {
        (Status.BUILDING, Mode(config.policy.gates.qa_after)): Status.QA,
        (Status.QA, Mode.FULL): Status.READY_TO_MERGE,
    }
    advance = None if state.is_build else advances.get((state.status, Mode(run.mode)))
    if run.verdict is not Verdict.PASS or advance is None:
        return after
    if state.set_aside is not None or open_requests(view, state.feature_id):
        # A conflict is not resolved, or a person wants a change.
        return after
    return with_status(after, advance)


def _refuse_stale(tx: Transaction, config: Config, state: FeatureState, finished: GateRun) -> None:
    """Refuse a run if plan or configuration changed its definition meanwhile."""
    accepted = tx.get(AcceptedPlan, state.feature_id)
    now = gate_runs.plan_gates(state, accepted.plan if accepted else None, Mode(finished.mode), config)
    if now.subject != finished.subject:
        raise EvidenceStale(
            f"The definition of the `{finished.mode}` gates of `{state.feature_id}` changed while they ran.",
            problems=[f"`{finished.mode}` ran on another tree, base or definition than the feature has now"],
        )


def _result(state: FeatureState, finished: GateRun, *, reused: bool) -> GateResult:
    return copy_fields(
        GateResult,
        finished,
        version=state.version,
        gate_run_id=finished.run_id,
        mode=Mode(finished.mode),
        status=state.status,
        tree=finished.subject.tree,
        reused=reused,
    )


TOOLS = (
    Tool(
        name=GATES_RUN,
        summary="Run the fast, full or merge gates of the feature's profile on its tree.",
        arguments=RunGatesArguments,
        output=GateResult,
        roles=GATE_RUNNERS,
        run=run,
        mutates=True,
    ),
)
