"""Step processes: the steps of a gate run, one after the other or at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from aop.core.errors import TransientExecFailure
from aop.core.ids import GateRunId
from aop.kernel.config.gates import Step
from aop.kernel.config.policy import ExecutionRules
from aop.kernel.gates.execution.canary_steps import carry_canary
from aop.kernel.gates.execution.exact_trees import ExactTree
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.execution.step_results import StepRun, step_result
from aop.kernel.gates.steps import error_log
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.processes import CommandResult


def run_steps(call: Call, plan: GatePlan, steps: Sequence[Step], exact: ExactTree, run_id: GateRunId) -> list[StepRun]:
    """Run steps in a checkout, in order up to the first failure, or all in parallel."""
    what, every = f"{plan.feature_id}: {plan.mode} gates", (*plan.steps, *plan.added)
    if plan.profile.parallel and steps:
        call.report(f"{what}, {len(steps)} steps at once: {', '.join(step.name for step in steps)}")
        tasks = [partial(_run_step, call, plan, step, exact.folder, f"{run_id}-{step.name}") for step in steps]
        return exact.after(steps, call.kernel.processes.together(tasks))
    step_runs: list[StepRun] = []
    for step in steps:
        call.report(f"{what}, step {every.index(step) + 1} of {len(every)}: {step.name}")
        step_runs += exact.after([step], [_run_step(call, plan, step, exact.folder, f"{run_id}-{step.name}")])
        if step_runs[-1].result.outcome != "passed" and not plan.keeps_going:
            break
    return step_runs


def _run_step(call: Call, plan: GatePlan, step: Step, checkout: Path, log_name: str) -> StepRun:
    """Run a step, and retry transient failures of the machine (AOP-277)."""
    attempt, log_path = 1, f"{plan.log_folder}/{log_name}.log"
    ended = _run_once(call, plan, step, checkout, log_path)
    while ended.transient and attempt <= _retries(plan.policy.execution):
        attempt, log_path = attempt + 1, f"{plan.log_folder}/{log_name}-{attempt + 1}.log"
        ended = _run_once(call, plan, step, checkout, log_path)
    result = step_result(step, ended, log_path, attempts=attempt)
    digest = call.kernel.files.fingerprint(log_path) or ""
    result = msgspec.structs.replace(result, log_sha256=digest)
    return StepRun(result=result, transient=ended.transient, output=ended.output)


def _retries(rules: ExecutionRules) -> int:
    policy = rules.retry_policy
    return policy.transient_max_retries if TransientExecFailure.code in policy.transient_error_codes else 0


def _run_once(call: Call, plan: GatePlan, step: Step, checkout: Path, log_path: str) -> CommandResult:
    step, extras = carry_canary(call.kernel.files, step, plan.reports.canaries, checkout, plan.extras)
    command = plan.command(step, checkout, call.kernel.files.root / log_path, extras=extras)
    if plan.separates_errors:
        command = msgspec.structs.replace(command, error_log_path=call.kernel.files.root / error_log(log_path))
    told = partial(_report_before, call, plan)
    return call.kernel.processes.run(msgspec.structs.replace(command, report=told))


def _report_before(call: Call, plan: GatePlan, line: str) -> None:
    call.report(f"{plan.feature_id}: {line}")
