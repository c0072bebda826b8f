"""Base gates: the gates of every feature, run on the base branch itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aop.adapters.doctor.checks import Check, failure, fine
from aop.adapters.doctor.repository import needed_modes
from aop.adapters.processes.run_override import with_run
from aop.core.errors import Refusal
from aop.core.ids import CommitId, FeatureId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.gate_runs import GatePlan, decisive_step, run_gates
from aop.kernel.gates.reports.verdict import reports_of
from aop.kernel.gates.steps import definition_of, effective_steps, profile_named
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.processes import Command, CommandResult, Processes
from aop.kernel.record.documents.gate_runs import Subject, Verdict

LOGS = ".aop/doctor"

_NO_FEATURE = FeatureId("base")


def _with_logs_in(folder: Path, inner: Processes) -> Processes:
    """Return processes that write the logs of steps into one folder: these steps belong to no feature."""

    def run(command: Command) -> CommandResult:
        return inner.run(msgspec.structs.replace(command, log_path=folder / command.log_path.name))

    return with_run(inner, run)


def check_base_gates(call: Call, config: Config, head: CommitId) -> Iterator[Check]:
    """Run every required mode of each profile in a scratch checkout of the base branch."""
    logs = call.kernel.files.root / LOGS
    shutil.rmtree(logs, ignore_errors=True)
    kernel = msgspec.structs.replace(call.kernel, processes=_with_logs_in(logs, call.kernel.processes))
    call = msgspec.structs.replace(call, kernel=kernel)
    seen = []
    for name, profile in config.gates.profiles.items():
        # `default` often repeats another profile.
        if profile in seen:
            continue
        seen.append(profile)
        for mode in needed_modes(config.policy):
            if profile.modes.steps(mode) is not None:
                yield _check(call, config, head, name, mode)


def _check(call: Call, config: Config, head: CommitId, profile: str, mode: Mode) -> Check:
    name = f"{profile} {mode}"
    try:
        plan = _plan(call, config, head, profile, mode)
        with call.kernel.git.worktrees.scratch(head) as checkout:
            run = run_gates(call, plan, checkout)
    except Refusal as refusal:
        return failure(name, refusal.message, refusal.next_action)
    seconds = f"{sum(step.seconds for step in run.steps):.1f} s, sandbox {run.sandbox_level}"
    if run.verdict is Verdict.PASS:
        return fine(name, f"passed on the base branch in {seconds}")
    log = f"{LOGS}/{Path(decisive_step(run).log_path).name}"
    fix = f"Make it pass on the base branch first. Log: {log}"
    return failure(name, f"failed on the base branch after {seconds}: {run.failure}", fix)


def _plan(call: Call, config: Config, head: CommitId, profile_name: str, mode: Mode) -> GatePlan:
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
    )
