"""Run checks: the order of verification, and its tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from aop.core.ids import TreeId
from aop.core.text.counts import count
from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.counts import CountedTests, muted_tests, tests_in, tests_of
from aop.forge.builds.audit.subject import AuditSubject
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, Verdict

StepKind = Literal["static", "tests", "behaviour", "contract"]
ORDER: tuple[StepKind, ...] = ("static", "tests", "behaviour", "contract")

_CONTRACT = ("schemathesis", "dredd", "pact", "openapi", "forge check", "contract")
_BEHAVIOUR = ("playwright", "cypress", "behave", "cucumber", "e2e", "end-to-end", "smoke", "selenium", "journey")
_STATIC = (
    "ruff mypy pyright flake8 pylint black isort compileall py_compile eslint tsc prettier clippy vet gofmt lint"
    " typecheck fmt checkstyle shellcheck --check format"
).split()


def kind_of_step(step: StepResult) -> StepKind:
    """Return what a step of a verification proves."""
    return kind_of_command(step.name, step.command)


def kind_of_command(name: str, command: Sequence[str]) -> StepKind:
    """Return what a command proves; one that names nothing known runs tests."""
    text = " ".join((name, *command)).lower()
    words = set(text.replace("/", " ").replace(":", " ").replace("_", " ").split()) | set(text.split())
    if any(mark in text for mark in _CONTRACT):
        return "contract"
    if any(mark in text for mark in _BEHAVIOUR):
        return "behaviour"
    return "static" if words.intersection(_STATIC) or ("build" in words and "test" not in words) else "tests"


def check_order(subject: AuditSubject) -> AuditCheck:
    """A7: static checks, tests, behaviour and contract ran in this order on the final tree."""
    run = subject.verification
    if run is None:
        return judged("A7", failures=[_not_run(subject)], facts=())
    kinds = [kind_of_step(step) for step in run.steps]
    failures = [
        f"The step `{later.name}` ({late}) ran after `{earlier.name}` ({early})"
        for (earlier, early), (later, late) in zip(
            zip(run.steps, kinds, strict=True), list(zip(run.steps, kinds, strict=True))[1:], strict=False
        )
        if ORDER.index(late) < ORDER.index(early)
    ]
    if "tests" not in kinds:
        failures.append("No step of the verification ran tests")
    undone = [command for command in subject.verify_commands if command not in {step.command for step in run.steps}]
    failures += [f"`{' '.join(command)}` of the directive did not run" for command in undone]
    facts = [f"Run {run.run_id} on {subject.tree[:12]}: {_told(run.steps, kinds)}", *_own_parts(kinds)]
    return judged("A7", failures=failures, doubts=_together(run, subject), facts=facts)


def _together(run: GateRun, subject: AuditSubject) -> list[str]:
    profile = subject.call.kernel.config().gates.profiles.get(run.profile)
    if profile is not None and profile.parallel and len(run.steps) > 1:
        return [f"The steps of the profile `{run.profile}` run at once, so they have no order"]
    return []


def _own_parts(kinds: Sequence[StepKind]) -> list[str]:
    """Say what this audit does itself: it parses before anything runs, and holds the contracts against the result."""
    own = {"static": "A0 parses the tree", "contract": "A4 and W3 hold the contracts against the tree"}
    return [f"{kind}: {told}, as no step does" for kind, told in own.items() if kind not in kinds]


def _told(steps: Sequence[StepResult], kinds: Sequence[StepKind]) -> str:
    return ", ".join(f"{step.name} ({kind}) {step.outcome}" for step, kind in zip(steps, kinds, strict=True))


def _not_run(subject: AuditSubject) -> str:
    return f"The verification of the directive has not run on the tree {subject.tree[:12]}"


def check_tests(subject: AuditSubject) -> AuditCheck:
    """A8: verification passed here, with at least one test and none fewer than before."""
    run = subject.verification
    if run is None:
        return judged("A8", failures=[_not_run(subject)], facts=())
    failures = [] if run.verdict is Verdict.PASS else [f"Run {run.run_id} did not pass: {run.failure}"]
    tests = tests_of(run, subject.code)
    if tests.tests < 1:
        failures.append("No test runs")
    failures += fewer_tests(subject, tests)
    facts = [f"Run {run.run_id}: {run.verdict}", f"Tests: {tests}"]
    return judged("A8", failures=failures, facts=facts)


def fewer_tests(subject: AuditSubject, tests: CountedTests) -> list[str]:
    """Return where there are fewer tests than at the baseline or the last sign-off, in the report or in the tree.

    A test that was skipped or emptied since is named, even if others came in its place.
    """
    standing = tests_in(subject.code)
    trees = [("the baseline", subject.baseline)]
    found = []
    if subject.cycle.sign_offs:
        last = subject.cycle.sign_offs[-1]
        trees.append((f"the sign-off of phase {last.phase}", TreeId(last.tree)))
        if last.counted_by == tests.counted_by and tests.tests < last.tests:
            found.append(f"{count(tests.tests, 'test')} ran; {last.tests} at the sign-off of phase {last.phase}")
    for name, tree in trees:
        earlier = subject.code_of(tree)
        before = tests_in(earlier)
        if standing < before:
            found.append(
                f"{count(standing, 'test')} in the tree that are neither skipped nor empty; {before} at {name}"
            )
        found += [f"{test} is skipped or empty; it was not at {name}" for test in muted_tests(earlier, subject.code)]
    return found
