"""Base gates: the gates of every feature, run on the base branch itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from aop.adapters.reporting.doctor.checks import Check, failure, fine
from aop.core.errors import Refusal
from aop.core.ids import CommitId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.base.base_verdicts import base_plan, run_on_base
from aop.kernel.gates.gate_runs import decisive_step
from aop.kernel.gates.steps import needed_modes
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.gate_runs import Verdict

LOGS = ".aop/doctor"


def check_base_gates(call: Call, config: Config, head: CommitId) -> Iterator[Check]:
    """Run every required mode of each profile in a scratch checkout of the base branch."""
    shutil.rmtree(call.kernel.files.root / LOGS, ignore_errors=True)
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
        run = run_on_base(call, base_plan(call, config, head, profile, mode, logs=LOGS))
    except Refusal as refusal:
        return failure(name, refusal.message, refusal.next_action)
    seconds = f"{sum(step.seconds for step in run.steps):.1f} s, sandbox {run.sandbox_level}"
    if run.verdict is Verdict.PASS:
        return fine(name, f"passed on the base branch in {seconds}")
    fix = f"Make it pass on the base branch first. Log: {decisive_step(run).log_path}"
    return failure(name, f"failed on the base branch after {seconds}: {run.failure}", fix)
