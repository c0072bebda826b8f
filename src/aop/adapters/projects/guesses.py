"""What is known of a project before AOP manages it, and what is guessed from that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from aop.kernel.config.gates import Mode, Modes, Parsers, Profile, Step, TestsParser

NO_TESTS = (
    "No tests were found. The modes without steps cannot pass: write the commands that prove a change into gates.yaml."
)


NO_PARSERS = Parsers()


class Project(Struct, frozen=True, kw_only=True):
    """The files of a project, as its base branch has them."""

    paths: frozenset[str]
    texts: Mapping[str, str]
    """The content of those few files that some language asked for."""

    def below(self, folder: str) -> Project:
        """Return what lies in a folder (`""` is the root) as a project of its own."""
        if not folder:
            return self
        prefix = f"{folder}/"
        paths = frozenset(path.removeprefix(prefix) for path in self.paths if path.startswith(prefix))
        texts = {path.removeprefix(prefix): text for path, text in self.texts.items() if path.startswith(prefix)}
        return Project(paths=paths, texts=texts)

    def any_below(self, *folders: str) -> bool:
        """Tell whether a path leads through one of these folders, wherever it is."""
        return any(f"/{folder}/" in f"/{path}" for path in self.paths for folder in folders)

    def first_of(self, *paths: str) -> str | None:
        """Return the first of these files that is there."""
        return next((path for path in paths if path in self.paths), None)


class ChosenStep(Struct, frozen=True, kw_only=True):
    """A step, and why it is one."""

    step: Step
    why: str


class Guess(Struct, frozen=True, kw_only=True):
    """How a project seems to prove its changes."""

    profile: Profile
    reasons: Mapping[str, str] = {}
    """For each step, by its name, why it is one."""
    notes: tuple[str, ...] = ()
    """What a person should know before trusting the guess."""
    sandbox_read: tuple[str, ...] = ()
    """Folders of this machine that the steps read, beyond what every gate sees."""
    sandbox_write: tuple[str, ...] = ()

    @property
    def proves(self) -> bool:
        """Tell whether any mode has a step."""
        return any(self.profile.modes.steps(mode) for mode in Mode)


class Language(Struct, frozen=True, kw_only=True):
    """One kind of project that AOP can guess the gates of."""

    name: str
    profile: str
    """What its gate profile is called where there are several."""
    suffixes: tuple[str, ...]
    """How its source files end."""
    marks: Callable[[str], bool]
    """Tells whether a file of this name makes its folder a project of this kind."""
    reads: Callable[[str], bool]
    """Tells whether the guess depends on the text of a file, by its path from the project's folder."""
    guess: Callable[[Project], Guess | None]
    """Returns None for a project of another kind. Pure: all that it knows is in the project."""


def guess_of(
    *,
    tests: Sequence[ChosenStep],
    reporting: Sequence[ChosenStep] | None = None,
    setup: Sequence[ChosenStep] = (),
    checks: Sequence[ChosenStep] = (),
    parsers: Parsers = NO_PARSERS,
    notes: Sequence[str] = (),
    sandbox_read: Sequence[str] = (),
    sandbox_write: Sequence[str] = (),
) -> Guess:
    """Return a guess with the tests in every mode, and the checks in `full`.

    `setup` comes first wherever something else runs; `reporting` are the tests of `full` and `merge`, where these
    leave a report.
    """
    full = tests if reporting is None else reporting

    def steps(*chosen: Sequence[ChosenStep]) -> tuple[Step, ...]:
        found = [one.step for group in chosen for one in group]
        return (*(one.step for one in setup), *found) if found else ()

    return Guess(
        profile=Profile(modes=Modes(fast=steps(tests), full=steps(checks, full), merge=steps(full)), parsers=parsers),
        reasons={one.step.name: one.why for group in (setup, checks, tests, full) for one in group},
        notes=tuple(notes) if tests else (NO_TESTS, *notes),
        sandbox_read=tuple(sandbox_read),
        sandbox_write=tuple(sandbox_write),
    )


def junit_report(path: str) -> TestsParser:
    """Return the parser of a JUnit report that the tests of `full` and `merge` leave."""
    return TestsParser(type="junit_xml", path=path, modes=(Mode.FULL, Mode.MERGE))


def monorepo_note(kind: str, members: Sequence[str] = ()) -> str:
    """Say that the repository holds several packages, which one profile proves together."""
    named = ": " + ", ".join(f"`{member}`" for member in members) if members else ""
    return f"This is a monorepo ({kind}{named}). Its gates run for all of its packages, whichever a feature touches."


def caches_note(fill: str, *, read: Sequence[str] = (), write: Sequence[str] = ()) -> str:
    """Say what the gates need of this machine, and which lines of policy.yaml open it."""
    return (
        "Gates have no network and an empty home folder: what they need is taken from where an ordinary"
        f" {fill} of yours leaves it. In policy.yaml, {' and '.join(_lines(read, write))}."
    )


def _lines(read: Sequence[str], write: Sequence[str]) -> Iterator[str]:
    if read:
        yield f"`execution.sandbox_read: [{', '.join(read)}]` lets them read it"
    if write:
        yield (
            f"`execution.sandbox_write: [{', '.join(write)}]` lets them read and change it, which its tools insist on"
            " (so one feature's tests can spoil it for others)"
        )
