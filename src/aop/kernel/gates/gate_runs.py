"""Gate runs: steps run on a checked-out tree, and the verdict on them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.errors import CoverageBelowMinimum, Fault, GateFailed, GateTimeout, Json, Refusal, TransientExecFailure
from aop.core.ids import CommitId, GateRunId, TreeId
from aop.kernel.config.gates import Mode, Modes, Profile, Step
from aop.kernel.config.in_force import Config
from aop.kernel.features.installation import CheckoutExtras, SetupTarget
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.features.trees import is_at_or_below
from aop.kernel.features.worktree_extras import set_up_checkout
from aop.kernel.gates.execution.canary_steps import with_canaries
from aop.kernel.gates.execution.exact_trees import ExactTree
from aop.kernel.gates.execution.flaky import with_known_failure
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.execution.listings import listed_tests
from aop.kernel.gates.execution.step_processes import run_steps
from aop.kernel.gates.execution.step_results import StepRun, first_failure, verdict_of_step
from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.test_comparison import TestNames, excuses_of
from aop.kernel.gates.reports.verdict import (
    Reports,
    ReportVerdict,
    judge_reports,
    remove_old_reports,
    reports_of,
    with_listing,
)
from aop.kernel.gates.steps import definition_of, effective_steps, profile_named, refuse_escape
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.ports.git import FileMode
from aop.kernel.record.documents.base import digest_of
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, Subject, TestBaseline, Verdict
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.port import Transaction

_OWN_PROGRAMS = "+"


def plan_gates(state: FeatureState, plan: Plan | None, mode: Mode, config: Config) -> GatePlan:
    """Return the gate run that would prove a mode of a feature as it is now, or refuse it as its parts do."""
    profile = profile_named(config.gates, state.gate_profile)
    steps = effective_steps(state.gate_profile, profile, mode, plan, config.policy)
    own = len(profile.modes.steps(mode) or ())
    changes = (*state.test_changes, *((plan.test_changes or ()) if plan is not None else ()))
    return GatePlan(
        feature_id=state.feature_id,
        profile_name=state.gate_profile,
        profile=profile,
        mode=mode,
        steps=steps[:own],
        added=steps[own:],
        reports=reports_of(state.gate_profile, profile, mode, config.policy),
        subject=Subject(
            tree=state.tree,
            base_commit=state.base_commit,
            definition=definition_of(steps, profile, config.policy, changes),
        ),
        own_definition=definition_of(profile.modes.steps(mode) or (), profile, config.policy),
        lists_tests=mode is not Mode.FAST,
        test_changes=changes,
        policy=config.policy,
        config_hash=config.hash,
    )


def refuse_escaped_profile(
    kernel: Kernel, state: FeatureState, config: Config, *, base: CommitId, tree: TreeId
) -> None:
    """Refuse a profile that proves less than the policy demands for a tree. Raises: InvalidOverridePrecedence."""
    if config.policy.gates.required:
        changes = kernel.git.objects.changes(kernel.git.objects.tree_of(base), tree)
        paths = [change.path for change in changes]
        refuse_escape(config, state.gate_profile, lambda area: any(area.covers(path, fold=True) for path in paths))


def plan_command(state: FeatureState, step: Step, config: Config) -> GatePlan:
    """Return a run of one command on a feature's tree, which reads no report and proves nothing."""
    profile = Profile(modes=Modes(fast=(step,), full=()))
    definition = definition_of((step,), profile, config.policy)
    return GatePlan(
        feature_id=state.feature_id,
        profile_name=state.gate_profile,
        profile=profile,
        mode=Mode.FAST,
        steps=(step,),
        reports=Reports(),
        subject=Subject(tree=state.tree, base_commit=state.base_commit, definition=definition),
        policy=config.policy,
        config_hash=config.hash,
        separates_errors=True,
        kept="all",
    )


def with_named_tests(plan: GatePlan, ledger: ObligationLedger | None) -> GatePlan:
    """Add the tests that the feature's plan names, if its gates report tests."""
    if ledger is None or plan.reports.tests is None:
        return plan
    return msgspec.structs.replace(plan, named_tests=ledger.accounting.named_tests)


def subjects_by_mode(state: FeatureState, plan: Plan | None, config: Config) -> dict[str, Subject]:
    """Return the subject of a run of each mode now; a mode that cannot run is absent."""
    subjects = {}
    for mode in Mode:
        with suppress(Refusal):
            subjects[mode.value] = plan_gates(state, plan, mode, config).subject
    return subjects


def machine_identity(call: Call, plan: GatePlan, checkout: Path | None = None) -> str:
    """Return the identity of the programs on this machine that decide a plan's verdict.

    Programs that lie in a checkout, where its set-up put them, come after a `+`; without a checkout they are left out.
    """
    programs = [_placed_program(call, plan, step, checkout) for step in (*plan.steps, *plan.added)]
    own = [program for program, is_own in programs if is_own]
    groups = ([program for program, is_own in programs if not is_own], *((own,) if own and checkout else ()))
    sandbox = plan.policy.execution.sandbox
    return _OWN_PROGRAMS.join(call.kernel.processes.identity(sandbox, group) for group in groups)


def _placed_program(call: Call, plan: GatePlan, step: Step, checkout: Path | None) -> tuple[str, bool]:
    """Return a step's program, by its place where that is known, and whether only a checkout has it."""
    program, kernel = step.cmd[0], call.kernel
    if "/" not in program or program.startswith("/"):
        return program, False
    path = posixpath.normpath(posixpath.join(step.cwd or "", program))
    if any(is_at_or_below(path, link) for link in plan.policy.worktree.link):
        return str(kernel.files.root / path), False
    entry = kernel.git.objects.entry(plan.subject.tree, path) if not path.startswith("..") else None
    if entry is not None and entry.mode is not FileMode.SYMLINK:
        # The tree, which is part of the subject, says what it is.
        return program, False
    return str((checkout or Path()) / path), True


def shared_identity(machine: str) -> str:
    """Return an identity without the programs of a checkout."""
    return machine.partition(_OWN_PROGRAMS)[0]


class ExecutedGates(Struct, frozen=True, kw_only=True):
    """A gate run, together with the names of all its tests, which its document does not hold."""

    run: GateRun
    names: TestNames | None
    """None without a test report."""
    cases: tuple[ReportedTest, ...] = ()


def run_gates(call: Call, plan: GatePlan, checkout: Path) -> GateRun:
    """Run the steps in a checkout of the plan's tree, without regard to the base. Raises: as `execute_gates`."""
    return execute_gates(call, plan, checkout).run


def execute_gates(call: Call, plan: GatePlan, checkout: Path, *, baseline: TestBaseline | None = None) -> ExecutedGates:
    """Run the steps in a checkout of the plan's tree: in order up to the first failure, or all in parallel.

    `baseline` has the tests that run on the base, where they are known.
    Raises: WorktreeSetupFailed, SetupNeedsNetwork.
    """
    kernel = call.kernel
    plan = msgspec.structs.replace(plan, extras=_set_up(call, plan, checkout))
    run_id = GateRunId(kernel.new_id("gate"))
    level = kernel.processes.sandbox_level(plan.policy.execution.sandbox)
    started = kernel.now()
    remove_old_reports(kernel.files, plan.reports, checkout)
    for path, content in plan.inputs.items():
        kernel.files.write((checkout / path).relative_to(kernel.files.root).as_posix(), content, durable=False)
    plan = msgspec.structs.replace(plan, reports=with_canaries(plan.reports, plan.steps, plan.policy, kernel.new_id))
    exact = ExactTree(
        kernel,
        checkout,
        plan.subject.tree,
        policy=plan.policy,
        extras=plan.extras,
        kept=plan.kept,
        reports=plan.reports.paths,
    )
    with kernel.locks.gate_slot(plan.policy.supervisor.max_parallel_gate_runs):
        step_runs = run_steps(call, plan, plan.steps, exact, run_id)
        outcome = judge_reports(
            kernel.files,
            _with_output(plan.reports, step_runs),
            checkout,
            profile=plan.profile,
            policy=plan.policy,
            baseline=baseline,
            excuses=excuses_of(kernel.git.objects, plan.subject.base_commit, plan.test_changes),
            named_tests=plan.named_tests,
        )
        if first_failure(step_runs) is None:
            step_runs += run_steps(call, plan, plan.added, exact, run_id)
        if plan.lists_tests and outcome.cases and (baseline is None or not _has_failed(step_runs, outcome)):
            # Last, since it runs code of the feature: nothing that it changes is read any more.
            outcome = with_listing(outcome, listed_tests(call, plan, exact, run_id), baseline)
    failed = first_failure(step_runs)
    if failed is not None:
        # The report of a run that failed proves nothing; it only says how many tests there were.
        before = verdict_of_step(failed, step_runs[: step_runs.index(failed)])
        outcome = msgspec.structs.replace(before, tests=outcome.tests, names=outcome.names, cases=outcome.cases)
    run = GateRun(
        version=1,
        run_id=run_id,
        feature_id=plan.feature_id,
        profile=plan.profile_name,
        mode=plan.mode,
        subject=plan.subject,
        config_hash=plan.config_hash,
        verdict=Verdict.FAIL if outcome.failure_code else Verdict.PASS,
        failure_code=outcome.failure_code,
        failure=outcome.failure,
        steps=tuple(each.result for each in step_runs),
        coverage=outcome.coverage,
        tests=outcome.tests,
        findings=outcome.findings,
        sandbox_level=level,
        machine=machine_identity(call, plan, checkout),
        started_at=started,
        finished_at=kernel.now(),
    )
    with kernel.record.read() as view:
        run = with_known_failure(view, run, plan.policy)
    return ExecutedGates(run=run, names=outcome.names, cases=outcome.cases)


def _with_output(reports: Reports, step_runs: Sequence[StepRun]) -> Reports:
    wanted = reports.tests.step if reports.tests is not None else ""
    printed = next((each.output for each in step_runs if each.result.name == wanted), None)
    return msgspec.structs.replace(reports, printed=printed)


def _has_failed(step_runs: Sequence[StepRun], outcome: ReportVerdict) -> bool:
    return first_failure(step_runs) is not None or bool(outcome.failure_code)


def _set_up(call: Call, plan: GatePlan, checkout: Path) -> CheckoutExtras:
    target = SetupTarget(
        feature_id=plan.feature_id,
        tree=plan.set_up_tree or plan.subject.tree,
        base_commit=plan.subject.base_commit,
        folder=checkout,
        logs=plan.logs,
        exact=plan.kept == "outputs",
    )
    extras = set_up_checkout(call, target, plan.policy)
    # An order for a worker brings the feature's variables along: they are in the record.
    return msgspec.structs.replace(extras, env=plan.extras.env) if plan.extras.env else extras


FAILURES: Mapping[str, type[Refusal]] = {
    failure.code: failure for failure in (GateFailed, GateTimeout, CoverageBelowMinimum, TransientExecFailure)
}


def gate_failure(run: GateRun) -> Refusal:
    """Return the refusal that answers a failed run, whose verdict is recorded."""
    if run.verdict is Verdict.PASS:
        raise Fault(f"The gate run `{run.run_id}` passed.")
    return FAILURES[run.failure_code](
        run.failure,
        gate_run_id=run.run_id,
        mode=run.mode,
        profile=run.profile,
        steps=[msgspec.to_builtins(step) for step in run.steps],
    ).with_evidence(**evidence_pointers(run))


def record_run(tx: Transaction, call: Call, before: FeatureState, after: FeatureState, run: GateRun) -> FeatureState:
    """Store a run, passed or failed, together with the feature's next version."""
    tx.put(run, run.run_id)
    stored = store_feature(tx, before, after, now=call.kernel.now())
    tx.append(
        call.event(
            "gates_ran",
            stored.feature_id,
            gate_run_id=run.run_id,
            run_sha256=digest_of(run),
            profile=run.profile,
            mode=run.mode,
            verdict=run.verdict,
            tree=run.subject.tree,
            failure_code=run.failure_code,
            sandbox_level=run.sandbox_level,
            status=stored.status,
        )
    )
    return stored


def decisive_step(run: GateRun) -> StepResult:
    """Return the step whose log explains the verdict: the first that failed, or else the last."""
    return next((step for step in run.steps if step.outcome != "passed"), run.steps[-1])


def evidence_pointers(run: GateRun) -> dict[str, Json]:
    """Return pointers to the proof of a run (AOP-149)."""
    step = decisive_step(run)
    return {
        "gate_run_id": run.run_id,
        "log_path": step.log_path,
        "command": list(step.command),
        "exit_code": step.exit_code,
        "sandbox_level": run.sandbox_level,
    }
