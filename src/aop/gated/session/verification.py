"""Verification: the test command, the gates without the fix, and the preflight."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import SecretDetected
from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.gated.machine.position import is_last_step
from aop.gated.machine.red_tests import names_of, red_problem, red_tests, tests_with_fate
from aop.gated.machine.state import CommandRan, PreflightRan, RunCommand, RunPreflight, RunWithoutFix, WithoutFixRan
from aop.gated.session.documents import Unfixed
from aop.gated.session.frozen_tests import changed_tests, tests_to_freeze, weakened_tests
from aop.gated.session.red_steps import reds_since, tree_in_company
from aop.gated.session.session import Session
from aop.kernel.config.gates import Mode, Step, TestsParser
from aop.kernel.config.in_force import Config
from aop.kernel.features.worktree_hold import note_quarantined
from aop.kernel.gates.base.base_tests import with_base_tests
from aop.kernel.gates.base.baselines import tests_on_base
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import execute_gates, plan_gates, refuse_escaped_profile
from aop.kernel.gates.reports.measurements import ReportedTest
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
    ran = _run_test(session, action.test_command)
    return CommandRan(
        test_command=action.test_command,
        passed=ran.run.verdict is Verdict.PASS,
        output=ran.output,
        weakened=weakened_tests(session),
        red_problem=_red_problem(session, ran),
        frozen=tests_to_freeze(session),
        failed=red_tests(ran.tests),
    )


def run_without_fix(session: Session, action: RunWithoutFix) -> WithoutFixRan:
    """Run the gates on the current tests, with everything else as before they were written."""
    # These are the repository's gates: a command of the agent's choice could fail and pass at will.
    known, git = session.known, session.kernel.git
    nothing = WithoutFixRan(passed=False, output="", printed=action.printed)
    if known.red_tree is None or not proves_fixes(session):
        return nothing
    tests: dict[str, FileContent | None] = {
        each.path: None if each.new is None else (each.new.mode, git.objects.blob(each.new.oid))
        for each in changed_tests(session, known.red_tree)
    }
    unfixed = replace(session.the_state(), tree=git.objects.tree_with(known.red_tree, tests))
    plan = plan_gates(unfixed, None, Mode.FULL, session.config)
    if known.unfixed is not None and known.unfixed.subject == plan.subject:
        return nothing
    ran = run_in_worktree(session, plan)
    needless = tests_with_fate(reds_since(session, known.red_tree), ran.tests, "passed")
    passed = ran.run.verdict is Verdict.PASS
    if not passed and not needless:
        passing = tuple(sorted({case.name for case in ran.tests if case.passed}))
        session.learn(unfixed=Unfixed(subject=plan.subject, ran=ran.run.tests.get("ran"), passed=passing))
    return WithoutFixRan(passed=passed, output=ran.output, needless=names_of(needless), printed=action.printed)


def proves_fixes(session: Session) -> bool:
    """Tell whether tests must fail without the fix; this needs gates that read a test report."""
    parser = _tests_parser(session)
    return session.policy.the_fix_matters and parser is not None and Mode.FULL in parser.modes


def run_preflight(session: Session, action: RunPreflight) -> PreflightRan:
    """Run the full gates of the preflight profile; they cannot be skipped."""
    ran = run_mode(session, Mode.FULL)
    passed, output = ran.run.verdict is Verdict.PASS, ran.output
    problem = _missing_tests(session, ran) if proves_fixes(session) else ""
    if passed and not problem and proves_fixes(session) and is_last_step(session.workflow):
        problem = _company_problem(session)
    return PreflightRan(
        passed=passed and not problem, output="\n".join(filter(None, [output, problem])), printed=action.printed
    )


def _missing_tests(session: Session, ran: WorktreeRun) -> str:
    """Return which tests do not pass that went red, or that passed without the fix."""
    known, count = session.known, ran.run.tests.get("ran")
    unfixed = None if known.red_tree is None else known.unfixed
    red = [test for red in known.reds for test in red.tests]
    # A person who grants a change of a test file has seen which tests it removes.
    missing = tests_with_fate(red, ran.tests, "not_passed", *(() if known.workflow.granted_tests else ("absent",)))
    if missing:
        return f"These tests went red, and the gates do not run and pass them: {names_of(missing)}."
    lost = sorted(set(unfixed.passed if unfixed else ()) - {case.name for case in ran.tests if case.passed})
    if lost and not known.workflow.granted_tests:
        return f"These tests pass without the fix, and do not run and pass with it: {names_of(lost)}."
    if unfixed is None or count is None or unfixed.ran is None or count >= unfixed.ran:
        return ""
    return f"{count} tests ran, and {unfixed.ran} without the fix: tests were removed, skipped or not found."


def _company_problem(session: Session) -> str:
    """Run tests that went red once more beside the tests of their own time: a later one may have changed them."""
    state, tried = session.the_state(), {session.known.tree}
    for red in session.known.reds:
        tree = tree_in_company(session, red)
        if tree in tried:
            continue
        tried.add(tree)
        plan = plan_gates(replace(state, tree=tree), None, Mode.FULL, session.config)
        ran = run_in_worktree(session, replace(plan, keeps_going=True, lists_tests=False))
        failed = tests_with_fate(red.tests, ran.tests, "not_passed", "absent")
        if failed:
            return f"With the test files as they were in their RED step, these tests fail: {names_of(failed)}."
    return ""


def run_mode(session: Session, mode: Mode) -> WorktreeRun:
    """Run one mode of the feature's gates on its tree, and record the verdict."""
    state = session.the_state()
    refuse_escaped_profile(session.kernel, state, session.kernel.config(), base=state.base_commit, tree=state.tree)
    plan = plan_gates(state, None, mode, session.config)
    ran = run_in_worktree(session, plan, baseline=tests_on_base(session.call, plan))
    session.state = with_verdict(session.the_state(), ran.run)
    return ran


class WorktreeRun(Struct, frozen=True, kw_only=True):
    """A gate run in the worktree."""

    run: GateRun
    output: str
    tests: tuple[ReportedTest, ...]
    """The tests of its report; empty without one."""


def run_in_worktree(
    session: Session, plan: GatePlan, *, baseline: TestBaseline | None = None, inputs: Mapping[str, bytes] | None = None
) -> WorktreeRun:
    """Run a gate plan in the worktree with the plan's tree."""
    kernel, name = session.kernel, session.name
    checkout = kernel.git.worktrees.ensure(name, session.the_state().branch)
    strays = kernel.git.worktrees.status(name, session.known.tree).strays
    note_quarantined(session.call, name, kernel.git.worktrees.clear_strays(name, plan.subject.tree))
    try:
        executed = execute_gates(session.call, replace(plan, inputs=inputs or {}), checkout, baseline=baseline)
    finally:
        kernel.git.worktrees.discard_strays(name, session.known.tree)
    run = with_base_tests(session.call, plan, executed.run, baseline)
    session.runs.append(run)
    foreign = [f"`{path}` was not changed with `safe_patch`, and was left out." for path in strays]
    return WorktreeRun(run=run, output="\n".join([*foreign, output_of(session, run)]), tests=executed.cases)


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
    if parser is not None and parser.step:
        parser = replace(parser, step=step.name)
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


def _run_test(session: Session, command: str) -> WorktreeRun:
    if session.kernel.redact.secrets_in(command):
        raise SecretDetected("`test_command` seems to contain a secret, and it would be stored with the run.")
    step = Step(name="test_command", cmd=argv_of(command, "test_command"), env=_report_options(_tests_parser(session)))
    return run_in_worktree(session, step_plan(session, step, session.known.tree, tests=True))


def _tests_parser(session: Session) -> TestsParser | None:
    return profile_named(session.config.gates, preflight_profile(session.config)).parsers.tests


def _report_options(parser: TestsParser | None) -> dict[str, str]:
    """Make the runner leave the report that is read: what a test prints proves nothing."""
    if parser is None or parser.type == "cargo_test":
        return {}
    if parser.type == "go_test_json":
        return {"GOFLAGS": "-json"}
    return {} if globs.is_glob(parser.path) else {"PYTEST_ADDOPTS": f"--junitxml={parser.path}"}


def _red_problem(session: Session, ran: WorktreeRun) -> str:
    if proves_fixes(session) and not changed_tests(session, session.kernel.git.objects.tree_of(session.known.head)):
        return (
            "This step added or changed no test file, but a RED step writes a test. `gated.test_globs` of the policy"
            " says which files are tests."
        )
    if not session.policy.red_for_the_right_reason or _tests_parser(session) is None or ran.run.verdict is Verdict.PASS:
        return ""
    if not ran.run.tests:
        return "The command left no test report, so it is unknown whether a test failed."
    return red_problem(ran.tests)
