"""Runs what proves a step: the submitted test command, the same without the fix, and the preflight gates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from msgspec.structs import replace

from aop.core.errors import InvalidArguments, SecretDetected
from aop.core.ids import ObjectId, TreeId
from aop.gated.active_pr import StepType
from aop.gated.sitting import Sitting
from aop.gated.standing import step_of
from aop.gated.workflow import CommandRan, PreflightRan, RunCommand, RunPreflight, RunWithoutFix, WithoutFixRan
from aop.kernel import globs
from aop.kernel.baselines import base_tests
from aop.kernel.config import Config
from aop.kernel.config_models import Mode, Profile, Step
from aop.kernel.documents import GateRun, Subject, Verdict
from aop.kernel.gate_reports import Reports
from aop.kernel.gate_runs import GatePlan, planned_gates, run_gates
from aop.kernel.gates import definition_of, profile_named, with_verdict
from aop.kernel.held_features import note_quarantined
from aop.kernel.ports import FileContent, FileMode
from aop.kernel.questions import Question

LARGEST_OUTPUT = 200_000
METACHARACTERS = frozenset(";|&<>`$\n\r")
GRANT, REFUSE = "grant", "refuse"
_SWITCHES_OFF = re.compile(rb"skip|xfail|disabled|\bonly\(", re.IGNORECASE)


def preflight_profile(config: Config) -> str:
    """Return the gate profile that makes a step done."""
    named = config.policy.gated.preflight_profile
    return named or ("preflight" if "preflight" in config.gates.profiles else "default")


def ran_command(sitting: Sitting, action: RunCommand) -> CommandRan:
    """Run the submitted command on the tree that is judged, in the sandbox of gates."""
    run, output = _run_test(sitting, action.test_command, sitting.known.tree)
    return CommandRan(
        test_command=action.test_command,
        passed=run.verdict is Verdict.PASS,
        output=output,
        weakened=_weakened(sitting),
        red_problem=_red_problem(sitting, run),
        frozen=_changed_tests(sitting) if sitting.policy.frozen_tests else {},
    )


def ran_without_fix(sitting: Sitting, action: RunWithoutFix) -> WithoutFixRan:
    """Run the tests as they are now on everything else as it was when they went red."""
    known, git = sitting.known, sitting.kernel.git
    profile = profile_named(sitting.config.gates, preflight_profile(sitting.config))
    if not sitting.policy.the_fix_matters or known.red_tree is None or profile.parsers.tests is None:
        return WithoutFixRan(passed=False, output="")
    tests: dict[str, FileContent | None] = {}
    for change in git.changes(known.red_tree, known.tree):
        if _is_test(sitting, change.path):
            tests[change.path] = None if change.new is None else (change.new.mode, git.blob(change.new.oid))
    run, output = _run_test(sitting, action.test_command, git.tree_with(known.red_tree, tests))
    return WithoutFixRan(passed=run.verdict is Verdict.PASS, output=output)


def ran_preflight(sitting: Sitting, _action: RunPreflight) -> PreflightRan:
    """Run the full gates of the preflight profile; there is no way past them."""
    run, output = run_mode(sitting, Mode.FULL)
    return PreflightRan(passed=run.verdict is Verdict.PASS, output=output)


def run_mode(sitting: Sitting, mode: Mode) -> tuple[GateRun, str]:
    """Run one mode of the feature's gates on its tree, and keep the verdict."""
    plan = planned_gates(sitting.the_state(), None, mode, sitting.config)
    run, output = run_in_worktree(sitting, plan, baseline=base_tests(sitting.call, plan))
    sitting.state = with_verdict(sitting.the_state(), run)
    return run, output


def run_in_worktree(
    sitting: Sitting, plan: GatePlan, *, baseline: int | None = None, inputs: Mapping[str, bytes] | None = None
) -> tuple[GateRun, str]:
    """Run a plan in the worktree while it shows the plan's tree; return the run and what it printed."""
    kernel, name = sitting.kernel, sitting.name
    checkout = kernel.git.ensure_worktree(name, sitting.the_state().branch)
    strays = kernel.git.status(name, sitting.known.tree).strays
    note_quarantined(sitting.call, name, kernel.git.clear_strays(name, plan.subject.tree))
    for path, content in (inputs or {}).items():
        kernel.files.write((checkout / path).relative_to(kernel.files.root).as_posix(), content, durable=False)
    try:
        run = run_gates(sitting.call, plan, checkout, baseline=baseline)
    finally:
        kernel.git.discard_strays(name, sitting.known.tree)
    sitting.runs.append(run)
    foreign = [f"`{path}` was not changed by `safe_patch`, and took no part." for path in strays]
    return run, "\n".join([*foreign, output_of(sitting, run)])


def output_of(sitting: Sitting, run: GateRun) -> str:
    """Return what the steps of a run printed, word for word; the beginning is cut off where it is too much."""
    parts = []
    for step in run.steps:
        text = sitting.kernel.files.read_tail(step.log_path, limit=LARGEST_OUTPUT + 1).decode(errors="replace")
        if len(text) > LARGEST_OUTPUT:
            text = f"[The beginning is cut off; all of it is in {step.log_path}.]\n{text[-LARGEST_OUTPUT:]}"
        parts.append(text)
    if run.failure:
        parts.append(run.failure)
    return "\n".join(parts)


def step_plan(sitting: Sitting, step: Step, tree: TreeId, *, tests: bool) -> GatePlan:
    """Return a plan of one step that is not in gates.yaml."""
    state, config, profile_name = sitting.the_state(), sitting.config, preflight_profile(sitting.config)
    profile = profile_named(config.gates, profile_name)
    parser = profile.parsers.tests if tests else None
    subject = Subject(
        tree=tree, base_commit=state.base_commit, definition=definition_of((step,), profile, config.policy)
    )
    return GatePlan(
        feature_id=state.feature_id,
        profile_name=profile_name,
        profile=replace(profile, parallel=False),
        mode=Mode.FAST,
        steps=(step,),
        reports=Reports(tests=parser),
        subject=subject,
        policy=config.policy,
        config_hash=config.hash,
    )


def argv_of(command: str) -> tuple[str, ...]:
    """Return the words of a command that no shell reads.

    Raises: InvalidArguments.
    """
    used = sorted(METACHARACTERS & set(command))
    if used:
        raise InvalidArguments(
            f"`test_command` holds {', '.join(map(repr, used))}: no shell reads it, so that has no meaning in it.",
            hint="Name one program and its arguments.",
        )
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidArguments(f"`test_command` cannot be split into words: {error}.") from error
    if not words or "\0" in command:
        raise InvalidArguments("`test_command` names no program.")
    return words


def _run_test(sitting: Sitting, command: str, tree: TreeId) -> tuple[GateRun, str]:
    if sitting.kernel.redact.secrets_in(command):
        raise SecretDetected("`test_command` holds what looks like a secret, and it would be kept with the run.")
    profile = profile_named(sitting.config.gates, preflight_profile(sitting.config))
    step = Step(name="test_command", cmd=argv_of(command), env=_report_options(profile))
    return run_in_worktree(sitting, step_plan(sitting, step, tree, tests=True))


def _report_options(profile: Profile) -> dict[str, str]:
    """Have pytest leave the report that is read: what a test printed proves nothing."""
    parser = profile.parsers.tests
    is_one_file = parser is not None and not globs.is_glob(parser.path)
    return {"PYTEST_ADDOPTS": f"--junitxml={parser.path}"} if parser is not None and is_one_file else {}


def _red_problem(sitting: Sitting, run: GateRun) -> str:
    profile = profile_named(sitting.config.gates, preflight_profile(sitting.config))
    if not sitting.policy.red_for_the_right_reason or profile.parsers.tests is None or run.verdict is Verdict.PASS:
        return ""
    if not run.tests:
        return "The command left no report of its tests, so nobody knows whether a test failed."
    if run.tests.get("errors"):
        return (
            "A test broke before it could fail: an import error, a collection error or an error of a fixture is not the"
            " failure that a RED step is about. Make it fail by an assertion."
        )
    return "" if run.tests.get("failures") else "No test failed by an assertion."


def _is_test(sitting: Sitting, path: str) -> bool:
    return any(globs.matches(pattern, path) for pattern in sitting.policy.test_globs)


def _changed_tests(sitting: Sitting) -> dict[str, str]:
    git, known = sitting.kernel.git, sitting.known
    changes = git.changes(git.tree_of(known.base_commit), known.tree)
    return {each.path: each.new.oid for each in changes if each.new is not None and _is_test(sitting, each.path)}


def _weakened(sitting: Sitting) -> tuple[str, ...]:
    """Return the frozen tests that are not what they were; a RED step may add to one, and take nothing away."""
    git, known = sitting.kernel.git, sitting.known
    is_red = step_of(known.workflow).type is StepType.RED
    weakened = []
    for path, oid in known.workflow.frozen_tests.items():
        entry = git.entry(known.tree, path)
        if entry is not None and (entry.oid == oid or is_granted(sitting, path)):
            continue
        is_file = entry is not None and entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)
        if is_red and is_file and entry is not None and _only_adds(git.blob(ObjectId(oid)), git.blob(entry.oid)):
            continue
        weakened.append(path)
    return tuple(weakened)


def _only_adds(old: bytes, new: bytes) -> bool:
    """Tell whether all old lines are still there, in order, and no added line switches a test off."""
    left = old.splitlines()
    for line in new.splitlines():
        if left and line == left[0]:
            left.pop(0)
        elif _SWITCHES_OFF.search(line):
            return False
    return not left


def about_frozen(name: str, path: str) -> str:
    """Return what names the question whether a frozen test may change."""
    return f"frozen test of {name}: {path}"


def is_granted(sitting: Sitting, path: str) -> bool:
    """Tell whether a person permitted a change of a frozen test."""
    with sitting.kernel.record.read() as view:
        about = about_frozen(sitting.name, path)
        return any(each.about == about and each.answer == GRANT for each in view.all(Question))
