"""Verification: the test command, the gates without the fix, and the preflight."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from aop.core.errors import SecretDetected
from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.gated.machine.state import CommandRan, PreflightRan, RunCommand, RunPreflight, RunWithoutFix, WithoutFixRan
from aop.gated.session.documents import Unfixed
from aop.gated.session.frozen_tests import changed_tests, tests_to_freeze, weakened_tests
from aop.gated.session.session import Session
from aop.kernel.config.gates import Mode, Step, TestsParser
from aop.kernel.config.in_force import Config
from aop.kernel.features.worktree_hold import note_quarantined
from aop.kernel.gates.base.base_tests import with_base_tests
from aop.kernel.gates.base.baselines import tests_on_base
from aop.kernel.gates.gate_runs import GatePlan, execute_gates, plan_gates
from aop.kernel.gates.reports.verdict import Reports
from aop.kernel.gates.steps import argv_of, definition_of, profile_named, with_verdict
from aop.kernel.ports.git import FileContent
from aop.kernel.record.documents.gate_runs import GateRun, Subject, TestBaseline, Verdict

LARGEST_OUTPUT = 200_000


def preflight_profile(config: Config) -> str:
    """Return the gate profile of the preflight."""
    named = config.policy.gated.preflight_profile
    return named or ("preflight" if "preflight" in config.gates.profiles else "default")


def run_test_command(session: Session, action: RunCommand) -> CommandRan:
    """Run the submitted command on the judged tree, in the gates' sandbox."""
    run, output = _run_test(session, action.test_command)
    return CommandRan(
        test_command=action.test_command,
        passed=run.verdict is Verdict.PASS,
        output=output,
        weakened=weakened_tests(session),
        red_problem=_red_problem(session, run),
        frozen=tests_to_freeze(session),
    )


def run_without_fix(session: Session, _action: RunWithoutFix) -> WithoutFixRan:
    """Run the gates on the current tests, with everything else as before they were written."""
    # These are the repository's gates: a command of the agent's choice could fail and pass at will.
    known, git = session.known, session.kernel.git
    if known.red_tree is None or not proves_fixes(session):
        return WithoutFixRan(passed=False, output="")
    tests: dict[str, FileContent | None] = {
        each.path: None if each.new is None else (each.new.mode, git.objects.blob(each.new.oid))
        for each in changed_tests(session, known.red_tree)
    }
    unfixed = replace(session.the_state(), tree=git.objects.tree_with(known.red_tree, tests))
    plan = plan_gates(unfixed, None, Mode.FULL, session.config)
    if known.unfixed is not None and known.unfixed.subject == plan.subject:
        return WithoutFixRan(passed=False, output="")
    run, output = run_in_worktree(session, plan)
    session.learn(unfixed=Unfixed(subject=plan.subject, ran=run.tests.get("ran")))
    return WithoutFixRan(passed=run.verdict is Verdict.PASS, output=output)


def proves_fixes(session: Session) -> bool:
    """Tell whether tests must fail without the fix; this needs gates that read a test report."""
    return session.policy.the_fix_matters and _tests_parser(session) is not None


def run_preflight(session: Session, _action: RunPreflight) -> PreflightRan:
    """Run the full gates of the preflight profile; they cannot be skipped."""
    run, output = run_mode(session, Mode.FULL)
    missing = _missing_tests(session, run)
    return PreflightRan(passed=run.verdict is Verdict.PASS and not missing, output=f"{output}{missing}")


def _missing_tests(session: Session, run: GateRun) -> str:
    """Report if fewer tests ran than without the fix: a change that prevents tests would pass too."""
    known, ran = session.known, run.tests.get("ran")
    if known.unfixed is None or known.red_tree is None or not proves_fixes(session):
        return ""
    if ran is None or known.unfixed.ran is None or ran >= known.unfixed.ran:
        return ""
    return f"\n{ran} tests ran, and {known.unfixed.ran} without the fix: tests were removed, skipped or not found."


def run_mode(session: Session, mode: Mode) -> tuple[GateRun, str]:
    """Run one mode of the feature's gates on its tree, and record the verdict."""
    plan = plan_gates(session.the_state(), None, mode, session.config)
    run, output = run_in_worktree(session, plan, baseline=tests_on_base(session.call, plan))
    session.state = with_verdict(session.the_state(), run)
    return run, output


def run_in_worktree(
    session: Session, plan: GatePlan, *, baseline: TestBaseline | None = None, inputs: Mapping[str, bytes] | None = None
) -> tuple[GateRun, str]:
    """Run a gate plan in the worktree with the plan's tree; return the run and its output."""
    kernel, name = session.kernel, session.name
    checkout = kernel.git.worktrees.ensure(name, session.the_state().branch)
    strays = kernel.git.worktrees.status(name, session.known.tree).strays
    note_quarantined(session.call, name, kernel.git.worktrees.clear_strays(name, plan.subject.tree))
    for path, content in (inputs or {}).items():
        kernel.files.write((checkout / path).relative_to(kernel.files.root).as_posix(), content, durable=False)
    try:
        run = execute_gates(session.call, plan, checkout, baseline=baseline).run
    finally:
        kernel.git.worktrees.discard_strays(name, session.known.tree)
    run = with_base_tests(session.call, plan, run, baseline)
    session.runs.append(run)
    foreign = [f"`{path}` was not changed with `safe_patch`, and was left out." for path in strays]
    return run, "\n".join([*foreign, output_of(session, run)])


def output_of(session: Session, run: GateRun) -> str:
    """Return the exact output of a run's steps; the beginning of long output is cut off."""
    parts = []
    for step in run.steps:
        text = session.kernel.files.read_tail(step.log_path, limit=LARGEST_OUTPUT + 1).decode(errors="replace")
        if len(text) > LARGEST_OUTPUT:
            text = f"[The beginning is cut off; all of it is in {step.log_path}.]\n{text[-LARGEST_OUTPUT:]}"
        parts.append(text)
    if run.failure:
        parts.append(run.failure)
    return "\n".join(parts)


def step_plan(session: Session, step: Step, tree: TreeId, *, tests: bool) -> GatePlan:
    """Return a gate plan of one step that is not in gates.yaml."""
    state, config, profile_name = session.the_state(), session.config, preflight_profile(session.config)
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


def _run_test(session: Session, command: str) -> tuple[GateRun, str]:
    if session.kernel.redact.secrets_in(command):
        raise SecretDetected("`test_command` seems to contain a secret, and it would be stored with the run.")
    step = Step(name="test_command", cmd=argv_of(command, "test_command"), env=_report_options(_tests_parser(session)))
    return run_in_worktree(session, step_plan(session, step, session.known.tree, tests=True))


def _tests_parser(session: Session) -> TestsParser | None:
    return profile_named(session.config.gates, preflight_profile(session.config)).parsers.tests


def _report_options(parser: TestsParser | None) -> dict[str, str]:
    """Make pytest write the report that is read: the output of a test proves nothing."""
    is_one_file = parser is not None and not globs.is_glob(parser.path)
    return {"PYTEST_ADDOPTS": f"--junitxml={parser.path}"} if parser is not None and is_one_file else {}


def _red_problem(session: Session, run: GateRun) -> str:
    if proves_fixes(session) and not changed_tests(session, session.kernel.git.objects.tree_of(session.known.head)):
        return (
            "This step added or changed no test file, but a RED step writes a test. `gated.test_globs` of the policy"
            " says which files are tests."
        )
    if not session.policy.red_for_the_right_reason or _tests_parser(session) is None or run.verdict is Verdict.PASS:
        return ""
    if not run.tests:
        return "The command left no test report, so it is unknown whether a test failed."
    if run.tests.get("errors"):
        return (
            "A test broke before it could fail: an import error, a collection error or an error of a fixture is not the"
            " failure that a RED step is about. Make it fail by an assertion."
        )
    return "" if run.tests.get("failures") else "No test failed by an assertion."
