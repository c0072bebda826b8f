"""Tree verification: the pinned commands and the gates of the base, on one tree."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from aop.core.errors import NoGateSteps, UnknownGateProfileOrMode
from aop.forge.builds.audit.checks.run_checks import ORDER, kind_of_command
from aop.kernel.config.gates import Mode, Modes, Profile, Step
from aop.kernel.config.in_force import Config
from aop.kernel.features.worktree_hold import note_quarantined
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import plan_gates, run_gates
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.gates.steps import definition_of
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Subject


def verification_plan(state: FeatureState, commands: Sequence[tuple[str, ...]], config: Config) -> GatePlan:
    """Return the gate run that proves a phase on the tree of a build.

    The base's profile, where it has steps, runs with it: static checks before tests, as the audit demands.
    """
    base: GatePlan | None = None
    with suppress(NoGateSteps, UnknownGateProfileOrMode):
        base = plan_gates(state, None, Mode.FULL, config)
    # In order, so that what a later step proves was proven before it.
    profile = Profile(modes=Modes(fast=(), full=())) if base is None else replace(base.profile, parallel=False)
    gates = () if base is None else base.steps
    steps = _in_order((*gates, *_steps_of(commands, config, gates)))
    subject = Subject(
        tree=state.tree,
        base_commit=state.base_commit,
        definition=definition_of(steps, profile, config.policy),
    )
    return GatePlan(
        feature_id=state.feature_id,
        profile_name=state.gate_profile,
        profile=profile,
        mode=Mode.FULL,
        steps=steps,
        reports=Reports() if base is None else base.reports,
        subject=subject,
        policy=config.policy,
        config_hash=config.hash,
        # The agent has installed packages with commands of its own.
        kept="ignored",
    )


def run_verification(call: Call, state: FeatureState, plan: GatePlan) -> GateRun:
    """Run a verification in the worktree of its build; the caller holds the worktree."""
    worktrees = call.kernel.git.worktrees
    checkout = worktrees.ensure(state.feature_id, state.branch)
    note_quarantined(call, state.feature_id, worktrees.clear_strays(state.feature_id, state.tree))
    try:
        return run_gates(call, plan, checkout)
    finally:
        # Files that the steps left must not affect the next run.
        worktrees.discard_strays(state.feature_id, state.tree)


def _steps_of(commands: Sequence[tuple[str, ...]], config: Config, known: Sequence[Step]) -> tuple[Step, ...]:
    """Return the commands as steps; one that a gate runs anyway is not run twice."""
    there = {step.cmd for step in known if step.cwd is None}
    seconds = config.policy.forge.build.test_seconds
    return tuple(
        Step(name=f"verify-{at}", cmd=command, timeout_seconds=seconds)
        for at, command in enumerate(commands, start=1)
        if command not in there
    )


def _in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: ORDER.index(kind_of_command(step.name, step.cmd))))
