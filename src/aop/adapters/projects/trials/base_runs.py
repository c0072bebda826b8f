"""Base runs: one gate mode, run in a scratch checkout of the base commit."""

from __future__ import annotations

import msgspec

from aop.core.ids import CommitId
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.base_verdicts import base_plan
from aop.kernel.gates.gate_runs import run_gates
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.gate_runs import GateRun


def run_on_base(call: Call, config: Config, head: CommitId, profile: str, mode: Mode, *, logs: str) -> GateRun:
    """Run a mode of a profile on a commit. Raises: WorktreeSetupFailed, and what a gate run refuses."""
    plan = msgspec.structs.replace(base_plan(call, config, head, profile, mode), logs=logs)
    with call.kernel.git.worktrees.scratch(head) as checkout:
        return run_gates(call, plan, checkout)
