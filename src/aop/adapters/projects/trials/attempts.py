"""Attempts: a mode of a draft, run on the base commit, and the step that is red."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from aop.adapters.projects.drafts import Draft
from aop.adapters.projects.trials.cures import RedStep
from aop.adapters.projects.trials.trial import EXPLAINED, Attempt
from aop.core.errors import CoverageBelowMinimum, WorktreeSetupFailed
from aop.core.ids import CommitId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.base.base_verdicts import PROFILE, base_plan, run_on_base
from aop.kernel.gates.causes import Cause, cause_of
from aop.kernel.gates.gate_runs import decisive_step
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.gate_runs import GateRun, Verdict

LOGS = ".aop/init"
TAIL_BYTES = 24_000


def attempts_on(call: Call, head: CommitId, config_with: Callable[[Sequence[Draft]], Config]) -> Attempt:
    """Return what runs a mode of a draft on a commit."""
    shutil.rmtree(call.kernel.files.root / LOGS, ignore_errors=True)

    def attempt(draft: Draft, mode: Mode) -> RedStep | None:
        red: RedStep | None
        try:
            run = run_on_base(call, base_plan(call, config_with([draft]), head, PROFILE, mode, logs=LOGS))
        except WorktreeSetupFailed as refusal:
            red, log = _red_setup(call, draft, mode, refusal)
            seconds = ""
        else:
            red, log = _red_step(call, draft, mode, run)
            seconds = f" in {sum(step.seconds for step in run.steps):.1f} s"
        where = f"{draft.found.title}, {mode}"
        end = f"did not pass: {EXPLAINED[red.cause]} (log: {log})" if red else f"passed{seconds}"
        call.report(f"  {where}: {end}")
        return red

    return attempt


def _red_step(call: Call, draft: Draft, mode: Mode, run: GateRun) -> tuple[RedStep | None, str]:
    decisive = decisive_step(run)
    path = decisive.log_path
    if run.verdict is Verdict.PASS:
        return None, path
    log = _tail(call, path)
    if run.failure_code == CoverageBelowMinimum.code:
        cause = Cause.COVERAGE_LOW
    else:
        cause = cause_of(decisive.outcome, decisive.exit_code, f"{log}\n{run.failure}")
    step = next(step for step in draft.steps(mode) if step.name == decisive.name)
    return RedStep(mode=mode, step=step, cause=cause, log=log), path


def _red_setup(call: Call, draft: Draft, mode: Mode, refusal: WorktreeSetupFailed) -> tuple[RedStep, str]:
    path = str(refusal.facts.get("log_path", ""))
    log = f"{refusal.message}\n{_tail(call, path) if path else ''}"
    return RedStep(mode=mode, step=draft.steps(mode)[-1], cause=Cause.SETUP_FAILED, log=log), path


def _tail(call: Call, path: str) -> str:
    return call.kernel.files.read_tail(path, limit=TAIL_BYTES).decode(errors="replace")
