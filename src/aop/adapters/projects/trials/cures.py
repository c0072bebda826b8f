"""Cures: changes to a draft that may make a red step pass; each is tried."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.adapters.projects.drafts import INSTALL, TESTS, Draft
from aop.adapters.projects.trials import installs
from aop.adapters.projects.trials.environments import (
    NODE,
    PACKAGES,
    PYTHON,
    Environments,
    with_python,
    without_install,
)
from aop.adapters.projects.trials.test_commands import commands_of
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode, Parsers, Step
from aop.kernel.config.worktrees import SetupCommand
from aop.kernel.gates.causes import Cause, failed_pytest_ids

MOST_DESELECTED = 10
MOST_OF_A_FILE = 4
LEAST_LEFT = 4
"""A test is left out only if at least so many pass for each."""
_PASSED = re.compile(r"\b(?P<passed>\d+) passed\b")
_NOT_INSTALLED = frozenset({Cause.PROGRAM_MISSING, Cause.MODULE_MISSING, Cause.METADATA_MISSING, Cause.SETUP_FAILED})


class RedStep(Struct, frozen=True, kw_only=True):
    """A step that did not pass on the base commit."""

    mode: Mode
    step: Step
    cause: Cause
    log: str
    """The end of its log."""


class Cure(Struct, frozen=True, kw_only=True):
    """A changed draft, and the change as people are shown it."""

    text: str
    draft: Draft
    fetches: tuple[str, ...] = ()
    """The commands that use the network."""


def cures_of(draft: Draft, red: RedStep, environments: Environments) -> Iterator[Cure]:
    """Yield what may help, the likeliest first. A linter has no cure: it is a gate only if the base passes it."""
    if red.step.name != INSTALL and not red.step.name.startswith(TESTS):
        return
    if draft.profile.parsers.coverage and red.mode is not Mode.FAST:
        yield _cured(draft, _without_coverage(draft), "require no coverage")
    is_unclear = red.cause is Cause.FAILED and not draft.links
    not_installed = red.cause in _NOT_INSTALLED or red.step.name == INSTALL or is_unclear
    if not_installed and environments.generated and not draft.copies:
        copying = msgspec.structs.replace(draft, copies=environments.generated)
        text = "copy the files that a build made among the sources into each worktree (worktree.copy)"
        yield _cured(draft, copying, text)
    if not_installed:
        yield from _installing(draft, environments)
    if red.step.name != INSTALL:
        yield from _other_commands(draft)
        yield from _deselecting(draft, red)
        if red.mode is not Mode.FAST and draft.profile.parsers.tests:
            yield _cured(draft, _without_reports(draft), "write no report of the tests")


def _cured(draft: Draft, changed: Draft, text: str, fetches: tuple[str, ...] = ()) -> Cure:
    return Cure(text=text, draft=msgspec.structs.replace(changed, cures=(*draft.cures, text)), fetches=fetches)


def _installing(draft: Draft, environments: Environments) -> Iterator[Cure]:
    found = draft.found
    if found.language.name == PYTHON:
        place = posixpath.join(found.folder, ".venv")
        fresh = with_python(draft, place) if place not in draft.links else draft
        ways = installs.python_installs(found.inside, found.folder, ignored=place in environments.ignored)
        yield from (_set_up(draft, fresh, commands, without=place) for commands in ways)
    # Packages that git does not ignore would be removed from a worktree after its set-up.
    elif found.language.name == NODE and posixpath.join(found.folder, PACKAGES) in environments.ignored:
        commands = installs.node_install(found.inside, found.folder)
        place = posixpath.join(found.folder, PACKAGES)
        yield _set_up(draft, without_install(draft), commands, without=place)


def _set_up(draft: Draft, changed: Draft, commands: tuple[SetupCommand, ...], *, without: str) -> Cure:
    links = tuple(link for link in draft.links if link != without)
    changed = msgspec.structs.replace(changed, setup=commands, links=links)
    fetches = tuple(shlex.join(command.cmd) for command in commands if command.network == "host")
    tool = "pip" if len(commands) > 1 else commands[0].cmd[0]
    return _cured(draft, changed, f"install the packages in each worktree with {tool} (worktree.setup)", fetches)


def _other_commands(draft: Draft) -> Iterator[Cure]:
    for command in commands_of(draft.found.inside):
        changed = _with_test_command(draft, command.words, f"`{command.where}` runs the tests so")
        if any(changed.steps(mode) != draft.steps(mode) for mode in Mode):
            yield _cured(draft, changed, f"run `{' '.join(command.words)}`, as `{command.where}` does")


def _with_test_command(draft: Draft, words: tuple[str, ...], why: str) -> Draft:
    """Return a draft whose tests are another command, run by the same Python; pytest goes on to write its report."""
    old = next((step for mode in Mode for step in draft.steps(mode) if step.name == TESTS), None)
    if old is None:
        old = Step(name=TESTS, cmd=words, cwd=draft.found.folder or None)
    if words[0] == "python3" and "-m" in old.cmd:
        words = (*old.cmd[: old.cmd.index("-m")], *words[1:])
    is_pytest = "pytest" in words
    report = draft.profile.parsers.tests if is_pytest else None
    plain = msgspec.structs.replace(old, cmd=words)
    name = posixpath.relpath(report.path, draft.found.folder or ".") if report else ""
    reporting = msgspec.structs.replace(old, cmd=(*words, f"--junitxml={name}")) if report else plain
    others = {mode: [step for step in draft.steps(mode) if not step.name.startswith(TESTS)] for mode in Mode}
    tests = {mode: reporting if report and mode in report.modes else plain for mode in Mode}
    changed = draft.with_steps({mode: [*others[mode], tests[mode]] for mode in Mode}, Parsers(tests=report))
    return _with_reason(changed, why)


def _with_reason(draft: Draft, why: str) -> Draft:
    guess = draft.found.guess
    guess = msgspec.structs.replace(guess, reasons={**guess.reasons, TESTS: why})
    return msgspec.structs.replace(draft, found=msgspec.structs.replace(draft.found, guess=guess))


def _deselecting(draft: Draft, red: RedStep) -> Iterator[Cure]:
    """Yield the draft without the few tests that fail on the base commit."""
    failed = failed_pytest_ids(red.log) if "pytest" in red.step.cmd else ()
    passed = max((int(found["passed"]) for found in _PASSED.finditer(red.log)), default=0)
    words = _words_without(failed)
    if not 0 < len(words) <= MOST_DESELECTED or passed < LEAST_LEFT * len(failed):
        return
    changed = _with_tests(draft, lambda step: msgspec.structs.replace(step, cmd=(*step.cmd, *words)))
    text = f"leave out {count(len(failed), 'test')} that {'fails' if len(failed) == 1 else 'fail'} on the base commit"
    old = draft.found.guess.reasons.get(TESTS, "")
    yield _cured(draft, _with_reason(changed, f"{old}; --deselect and --ignore: these fail on the base commit"), text)


def _words_without(tests: Sequence[str]) -> tuple[str, ...]:
    """Return the options of pytest that leave out tests; a file with many of them is left out as a whole."""
    files = Counter(test.partition("::")[0] for test in tests)
    whole = {path for path, failed in files.items() if failed > MOST_OF_A_FILE or path in tests}
    single = (f"--deselect={test}" for test in tests if test.partition("::")[0] not in whole)
    return (*(f"--ignore={path}" for path in sorted(whole)), *single)


def _with_tests(draft: Draft, change: Callable[[Step], Step]) -> Draft:
    steps: Mapping[Mode, list[Step]] = {
        mode: [change(step) if "pytest" in step.cmd else step for step in draft.steps(mode)] for mode in Mode
    }
    return draft.with_steps(steps)


def _without_coverage(draft: Draft) -> Draft:
    changed = _with_tests(draft, _without_coverage_words)
    parsers = msgspec.structs.replace(draft.profile.parsers, coverage=None)
    return changed.with_steps({mode: changed.steps(mode) for mode in Mode}, parsers)


def _without_coverage_words(step: Step) -> Step:
    return msgspec.structs.replace(step, cmd=tuple(word for word in step.cmd if not word.startswith("--cov")))


def _without_reports(draft: Draft) -> Draft:
    """Return a draft that runs the tests of `fast` in every mode."""
    tests = [step for step in draft.steps(Mode.FAST) if step.name.startswith(TESTS)]
    others = {mode: [step for step in draft.steps(mode) if not step.name.startswith(TESTS)] for mode in Mode}
    return draft.with_steps({mode: [*others[mode], *tests] for mode in Mode}, Parsers())


def with_named_tests(draft: Draft) -> Draft:
    """Return a draft with the first test command that a file of the project names, if nothing else was guessed."""
    if any(step.name.startswith(TESTS) for mode in Mode for step in draft.steps(mode)):
        return draft
    named = next(iter(commands_of(draft.found.inside)), None)
    return draft if named is None else _with_test_command(draft, named.words, f"`{named.where}` runs the tests so")
