"""Trial: proposed gates run on the base commit, and cured until they pass."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from aop.adapters.projects.drafts import TESTS, Draft, LeftOut, drafts_by_profile
from aop.adapters.projects.texts import line_of
from aop.adapters.projects.trials.cures import RedStep, cures_of
from aop.adapters.projects.trials.environments import Environments
from aop.kernel.config.gates import Mode
from aop.kernel.gates.causes import Cause

EXPLAINED: dict[Cause, str] = {
    Cause.PROGRAM_MISSING: "a program is not on the PATH",
    Cause.MODULE_MISSING: "a module or package is not installed",
    Cause.METADATA_MISSING: "the project itself is not installed, so its version is unknown",
    Cause.NETWORK_REFUSED: "it needs the network, and gates have none (`execution.network: host` would open it)",
    Cause.SETUP_FAILED: "a set-up command of the worktree failed",
    Cause.NO_TESTS: "no test was found",
    Cause.COVERAGE_LOW: "the coverage is below the minimum (`testing.coverage.minimums`)",
    Cause.TIMED_OUT: "it passed its time limit",
    Cause.TESTS_FAILED: "tests fail",
    Cause.FAILED: "it ended with an error",
}
NO_STEP = "Write the command that runs your tests into gates.yaml."
# A cure that only leads from a cause to a later one is kept: the next cure begins there.
_ORDER = (
    (Cause.SETUP_FAILED, Cause.PROGRAM_MISSING),
    (Cause.MODULE_MISSING,),
    (Cause.METADATA_MISSING,),
    (Cause.FAILED, Cause.TIMED_OUT, Cause.NETWORK_REFUSED, Cause.NO_TESTS),
    (Cause.TESTS_FAILED, Cause.COVERAGE_LOW),
)

Attempt = Callable[[Draft, Mode], RedStep | None]
"""Runs a mode of a draft on the base commit; returns the step that did not pass."""


Causes = dict[tuple[str, Mode], Cause]
"""The first cause in each mode of a project, which is named by its title."""


class GateResult(Struct, frozen=True, kw_only=True):
    """The result of one mode of a profile, as it is written."""

    profile: str
    mode: Mode
    command: str
    result: str
    """`pass`, `fail` or `not_run`."""
    cause: str = ""
    """What was red at first, or still is."""
    cure: str = ""
    """The change that made it pass, or the line that a person would add."""


class Trial:
    """Runs drafts, tries the cures of what is red, and leaves out what stays red."""

    def __init__(
        self, attempt: Attempt, environments: Environments, agree: Callable[[str], bool], say: Callable[[str], None]
    ) -> None:
        self._attempt = attempt
        self._environments = environments
        self._agree = agree
        self._say = say
        self._seen: dict[object, RedStep | None] = {}
        self.causes: Causes = {}

    def heal(self, draft: Draft) -> Draft:
        """Return a draft whose every step passed on the base commit."""
        title, tried = draft.found.title, set[str]()
        while True:
            red = next((red for mode in Mode if (red := self._run(draft, mode))), None)
            if red is None:
                return draft
            self.causes.setdefault((title, red.mode), red.cause)
            draft = self._cured(draft, red, tried) or self._left_out(draft, red)

    def _run(self, draft: Draft, mode: Mode) -> RedStep | None:
        if not draft.steps(mode):
            return None
        parsers = draft.profile.parsers
        reports = [parser for parser in (parsers.coverage, parsers.tests) if parser and mode in parser.modes]
        key = repr((draft.found.folder, draft.steps(mode), reports, draft.links, draft.copies, draft.setup))
        if key not in self._seen:
            self._seen[key] = self._attempt(draft, mode)
        return self._seen[key]

    def _cured(self, draft: Draft, red: RedStep, tried: set[str]) -> Draft | None:
        """Return the first cured draft that gets further, or None."""
        for cure in cures_of(draft, red, self._environments):
            if cure.text in tried or (cure.fetches and not self._agree(cure.fetches[-1])):
                continue
            tried.add(cure.text)
            self._say(f"  Trying: {cure.text}")
            after = self._run(cure.draft, red.mode)
            if after is None or _is_further(after, red, cure.draft):
                return cure.draft
        return None

    def _left_out(self, draft: Draft, red: RedStep) -> Draft:
        why = f"`{red.step.name}` did not pass on the base commit: {EXPLAINED[red.cause]}."
        self._say(f"  Left out: {why}")
        if not red.step.name.startswith(TESTS):
            return draft.leave_out(red.step, cause=red.cause, why=why)
        # The tests of the other modes differ only in their reports.
        for mode in Mode:
            for step in draft.steps(mode):
                if step.name == red.step.name:
                    draft = draft.leave_out(step, cause=red.cause, why=why)
        return draft


def _is_further(after: RedStep, before: RedStep, draft: Draft) -> bool:
    names = [step.name for step in draft.steps(before.mode)]
    if after.step.name != before.step.name and before.step.name in names:
        return names.index(after.step.name) > names.index(before.step.name)
    return _rank(after.cause) > _rank(before.cause)


def _rank(cause: Cause) -> int:
    return next(rank for rank, causes in enumerate(_ORDER) if cause in causes)


def results_of(drafts: Sequence[Draft], causes: Causes, *, ran: bool) -> tuple[GateResult, ...]:
    """Return the result of each mode of each profile."""
    return tuple(
        _result(name, draft, mode, causes.get((draft.found.title, mode)), ran=ran)
        for name, draft in drafts_by_profile(drafts).items()
        for mode in Mode
    )


def _result(name: str, draft: Draft, mode: Mode, first: Cause | None, *, ran: bool) -> GateResult:
    steps = draft.steps(mode)
    left_out = [one for one in draft.left_out if mode in one.modes]
    command = " && ".join(shlex.join(step.cmd) for step in steps)
    if steps:
        cured = "; ".join((*draft.cures, *(f"leave out `{one.step.name}`" for one in left_out)))
        return GateResult(
            profile=name,
            mode=mode,
            command=command,
            result="pass" if ran else "not_run",
            cause=first or "",
            cure=cured,
        )
    if not left_out:
        return GateResult(profile=name, mode=mode, command="", result="not_run", cause=Cause.NO_TESTS, cure=NO_STEP)
    tests = next((one for one in left_out if one.step.name.startswith(TESTS)), left_out[-1])
    return GateResult(
        profile=name,
        mode=mode,
        command=shlex.join(tests.step.cmd),
        result="fail",
        cause=tests.cause,
        cure=f"Add to `{mode}` when it passes: {line_of(tests.step)}",
    )


def left_out_of(drafts: Sequence[Draft]) -> Iterator[tuple[str, LeftOut]]:
    """Yield the steps that are left out, with their profiles."""
    for name, draft in drafts_by_profile(drafts).items():
        yield from ((name, one) for one in draft.left_out)
