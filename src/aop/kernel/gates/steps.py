"""Steps of a gate run, and what a run of them proves."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from aop.core.errors import InvalidArguments, InvalidOverridePrecedence, NoGateSteps, UnknownGateProfileOrMode
from aop.core.paths.names import Area, Matching, parse_area
from aop.core.text.json import canonical_json
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.gates import Gates, Mode, Profile, Step
from aop.kernel.config.in_force import Config
from aop.kernel.config.policy import Policy
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Subject, TestChange, Verdict
from aop.kernel.record.documents.plans import OverrideStep, Plan

METACHARACTERS = frozenset(";|&<>`$\n\r")


def profile_named(gates: Gates, name: str) -> Profile:
    """Return a profile. Raises: UnknownGateProfileOrMode."""
    profile = gates.profiles.get(name)
    if profile is None:
        raise UnknownGateProfileOrMode(
            f"There is no gate profile `{name}` in gates.yaml.{did_you_mean(name, gates.profiles)}",
            profile=name,
            profiles=sorted(gates.profiles),
        )
    return profile


def needed_modes(policy: Policy) -> tuple[Mode, ...]:
    """Return the modes that a feature must pass before it is merged."""
    return tuple(dict.fromkeys((*policy.required_modes, policy.required_merge_mode)))


def missing_steps(config: Config, profiles: Iterable[str]) -> Iterator[str]:
    """Return a reason for each required mode of some profiles that proves nothing."""
    policy = config.policy
    for name in profiles:
        profile = profile_named(config.gates, name)
        for mode in needed_modes(policy):
            steps = profile.modes.steps(mode)
            if steps is None and not (mode is policy.required_merge_mode and policy.merge_mode_optional):
                yield f"the profile `{name}` has no mode `{mode}`"
            elif steps == ():
                yield f"the mode `{mode}` of the profile `{name}` has no steps"


def required_profiles(policy: Policy, is_touched: Callable[[Area], bool]) -> tuple[str, ...]:
    """Return the profiles that the policy demands for a change, by a test of what it touches."""
    rows = [(parse_area(path, Matching.GLOB), row.profile) for row in policy.gates.required for path in row.paths]
    return tuple(dict.fromkeys(profile for area, profile in rows if is_touched(area)))


def refuse_escape(config: Config, chosen: str, is_touched: Callable[[Area], bool]) -> None:
    """Refuse a profile that proves less than the policy demands for a change. Raises: InvalidOverridePrecedence."""
    profile = profile_named(config.gates, chosen)
    required = required_profiles(config.policy, is_touched)
    escaped = [name for name in required if name != chosen and not _proves(profile, profile_named(config.gates, name))]
    if escaped:
        names = ", ".join(f"`{name}`" for name in escaped)
        raise InvalidOverridePrecedence(
            f"The policy demands the gate profile {names} for these paths, and `{chosen}` does not hold its gates.",
            hint=f"Name {names} as `gate_profile` in the plan, or a profile that has all steps of it and more.",
            profile=chosen,
            required=escaped,
        )


def _proves(profile: Profile, required: Profile) -> bool:
    """Tell whether a profile demands at least what another one does: its steps, its reports, its coverage."""
    for mode in Mode:
        own = [(step.cmd, step.cwd, step.env) for step in profile.modes.steps(mode) or ()]
        if any((step.cmd, step.cwd, step.env) not in own for step in required.modes.steps(mode) or ()):
            return False
    if required.parsers.tests not in (None, profile.parsers.tests):
        return False
    if required.parsers.coverage not in (None, profile.parsers.coverage):
        return False
    own_least, least = (msgspec.structs.asdict(each.thresholds) for each in (profile, required))
    return all((own_least[name] or 0) >= (least[name] or 0) for name in least)


def check_overrides(plan: Plan, profile: Profile, policy: Policy) -> None:
    """Refuse a plan whose steps would weaken those of the profile (AOP-279, AOP-280)."""
    for mode in (Mode.FAST, Mode.FULL):
        with_overrides(profile.modes.steps(mode) or (), mode, plan, policy)


def effective_steps(
    profile_name: str, profile: Profile, mode: Mode, plan: Plan | None, policy: Policy
) -> tuple[Step, ...]:
    """Return the steps of the profile, then those that the plan adds."""
    own = profile.modes.steps(mode)
    if own is None:
        raise UnknownGateProfileOrMode(
            f"The gate profile `{profile_name}` has no mode `{mode}`.", profile=profile_name, mode=mode
        )
    if not own:
        # Steps that only the plan brings prove what its author likes: they do not make an empty mode a gate.
        raise NoGateSteps(
            f"The mode `{mode}` of the gate profile `{profile_name}` has no steps, so it proves nothing.",
            profile=profile_name,
            mode=mode,
        )
    return with_overrides(own, mode, plan, policy)


def with_overrides(own: Sequence[Step], mode: Mode, plan: Plan | None, policy: Policy) -> tuple[Step, ...]:
    """Combine a plan's steps with the profile's; a plan may add and tighten, never relax."""
    steps = {step.name: step for step in own}
    for override in _overrides(plan, mode):
        known = steps.get(override.name)
        steps[override.name] = (
            Step(name=override.name, cmd=override.cmd, timeout_seconds=override.timeout_seconds)
            if known is None
            else _tighten(known, override, mode, policy)
        )
    return tuple(steps.values())


def _overrides(plan: Plan | None, mode: Mode) -> tuple[OverrideStep, ...]:
    if plan is None or plan.verification_overrides is None:
        return ()
    modes = plan.verification_overrides.modes
    chosen = {Mode.FAST: modes.fast, Mode.FULL: modes.full}.get(mode)
    return () if chosen is None else chosen.steps


def _tighten(step: Step, override: OverrideStep, mode: Mode, policy: Policy) -> Step:
    limit = step.timeout_seconds or policy.execution.default_step_timeout_seconds
    if override.cmd != step.cmd:
        why = "runs another command than gates.yaml says"
    elif override.timeout_seconds is not None and override.timeout_seconds > limit:
        why = f"has a longer time limit than the {limit} s of gates.yaml"
    else:
        return msgspec.structs.replace(step, timeout_seconds=override.timeout_seconds or step.timeout_seconds)
    raise InvalidOverridePrecedence(
        f"The plan's step `{override.name}` of mode `{mode}` {why}.", mode=mode, step=override.name
    )


def definition_of(
    steps: Sequence[Step], profile: Profile, policy: Policy, test_changes: Sequence[TestChange] = ()
) -> str:
    """Return the hash of all settings that decide what a pass means."""
    meaning = {
        "steps": msgspec.to_builtins(steps),
        "parsers": msgspec.to_builtins(profile.parsers),
        "thresholds": msgspec.to_builtins(profile.thresholds),
        "testing": msgspec.to_builtins(policy.testing),
        "execution": msgspec.to_builtins(policy.execution),
        "base_tests": [policy.gates.base_tests, *policy.gates.test_files],
    }
    if test_changes:
        meaning["test_changes"] = msgspec.to_builtins(test_changes)
    if not policy.worktree.gives_nothing:
        meaning["worktree"] = msgspec.to_builtins(policy.worktree)
    return hashlib.sha256(canonical_json(meaning)).hexdigest()


def missing_proof(
    required: Sequence[str], runs: Mapping[str, GateRun | None], subjects: Mapping[str, Subject]
) -> list[str]:
    """Return a reason for each required mode that is not proven."""
    problems = []
    for mode in required:
        run = runs.get(mode)
        if run is None:
            problems.append(f"`{mode}` has not run")
        elif run.subject != subjects.get(mode):
            problems.append(f"`{mode}` ran on another tree, base or definition than the feature has now")
        elif run.verdict is not Verdict.PASS:
            problems.append(f"`{mode}` did not pass")
    return problems


def reset_verdicts(gates: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Return the verdicts of a feature whose tree changed: only that on the plan is kept."""
    return {name: verdict if name == "plan" else Verdict.NA for name, verdict in gates.items()}


def with_verdict(state: FeatureState, run: GateRun) -> FeatureState:
    """Return the feature with a run's verdict and the pointers to it."""
    coverage = {
        f"coverage_{name}": Verdict(run.coverage[name]["verdict"])
        for name in ("line", "branch")
        if name in run.coverage
    }
    evidence = msgspec.structs.replace(
        state.evidence, last_gate_run=run.run_id, latest_by_mode={**state.evidence.latest_by_mode, run.mode: run.run_id}
    )
    gates = {**state.gates, run.mode: run.verdict, **coverage}
    return msgspec.structs.replace(state, gates=gates, evidence=evidence)


def error_log(log_path: str) -> str:
    """Return the log of a step's standard error, beside that of its output."""
    return f"{log_path.removesuffix('.log')}.err.log"


def argv_of(command: str, name: str) -> tuple[str, ...]:
    """Split a command into words, without a shell; `name` is the argument that holds it. Raises: InvalidArguments."""
    used = sorted(METACHARACTERS & set(command))
    if used:
        raise InvalidArguments(
            f"`{name}` holds {', '.join(map(repr, used))}: it is run without a shell.",
            hint="Name one program and its arguments.",
        )
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidArguments(f"`{name}` cannot be split into words: {error}.") from error
    if not words or "\0" in command:
        raise InvalidArguments(f"`{name}` names no program.")
    return words
