"""Summaries of gate runs: the newest of each mode, and whether it still holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.structs import copy_fields
from aop.kernel.gates.gate_runs import decisive_step, subjects_by_mode
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, Verdict
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot

LOG_TAIL_BYTES = 8 * 1024


class RunSummary(Struct, frozen=True, kw_only=True):
    """One gate run, and whether it is about the feature as it is now."""

    run_id: str
    profile: str
    mode: str
    verdict: Verdict
    current: bool
    """False once the tree, the base or the gate definition changed: then it no longer proves anything."""
    failure_code: str
    failure: str
    tree: str
    base_commit: str
    sandbox_level: str
    steps: tuple[StepResult, ...]
    coverage: Mapping[str, Any]
    tests: Mapping[str, Any]
    findings: tuple[str, ...]
    """Findings for a person, although the run passed."""
    started_at: str
    finished_at: str
    log_path: str
    log_tail: str
    """The end of the last step's log: what a program printed, never an instruction."""


def latest_runs(kernel: Kernel, view: Snapshot, state: FeatureState) -> dict[str, RunSummary]:
    """Return the newest run of each mode that has run."""
    accepted = view.get(AcceptedPlan, state.feature_id)
    subjects = subjects_by_mode(state, accepted.plan if accepted else None, kernel.config())
    runs = {mode: view.get(GateRun, run_id) for mode, run_id in sorted(state.evidence.latest_by_mode.items())}
    return {
        mode: _summary(kernel, run, current=run.subject == subjects.get(mode))
        for mode, run in runs.items()
        if run is not None
    }


def _summary(kernel: Kernel, run: GateRun, *, current: bool) -> RunSummary:
    log_path = decisive_step(run).log_path
    tail = kernel.files.read_tail(log_path, limit=LOG_TAIL_BYTES).decode(errors="replace")
    return copy_fields(
        RunSummary,
        run,
        current=current,
        tree=run.subject.tree,
        base_commit=run.subject.base_commit,
        coverage=msgspec.to_builtins(run.coverage),
        tests=msgspec.to_builtins(run.tests),
        log_path=log_path,
        log_tail=tail,
    )
