"""Guesses: the files of a project, and the gates that they suggest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from aop.kernel.config.gates import Mode, Modes, Parsers, Profile, Step, TestsParser

NO_TESTS = "No tests were found. Modes without steps cannot pass: write your test commands into gates.yaml."
NO_PARSERS = Parsers()


class Project(Struct, frozen=True, kw_only=True):
    """The files of a project on its base branch."""

    paths: frozenset[str]
    texts: Mapping[str, str]
    """The content of the few files that guesses depend on."""
    submodules: tuple[str, ...] = ()
    """The paths of other repositories in it."""

    def below(self, folder: str) -> Project:
        """Return a folder (`""` is the root) as a project."""
        if not folder:
            return self
        prefix = f"{folder}/"
        paths = frozenset(path.removeprefix(prefix) for path in self.paths if path.startswith(prefix))
        texts = {path.removeprefix(prefix): text for path, text in self.texts.items() if path.startswith(prefix)}
        return Project(paths=paths, texts=texts)

    def any_below(self, *folders: str) -> bool:
        """Tell whether a path contains one of these folders, at any depth."""
        return any(f"/{folder}/" in f"/{path}" for path in self.paths for folder in folders)

    def first_of(self, *paths: str) -> str | None:
        """Return the first of these files that exists."""
        return next((path for path in paths if path in self.paths), None)


class ChosenStep(Struct, frozen=True, kw_only=True):
    """A step, and the reason for it."""

    step: Step
    why: str


class Guess(Struct, frozen=True, kw_only=True):
    """The guessed gates of a project."""

    profile: Profile
    reasons: Mapping[str, str] = {}
    """The reason for each step, by its name."""
    notes: tuple[str, ...] = ()
    """Facts for the person who checks the guess."""
    hints: tuple[str, ...] = ()
    """What the steps may lack; of no interest once they passed."""
    sandbox_read: tuple[str, ...] = ()
    """Folders of this machine that the steps must read, beside those of every gate."""
    sandbox_write: tuple[str, ...] = ()

    @property
    def proves(self) -> bool:
        """Tell whether any mode has a step."""
        return any(self.profile.modes.steps(mode) for mode in Mode)


class LanguageRules(Protocol):
    """The rules of one kind of project; each is a module of this package."""

    def marks(self, name: str) -> bool:
        """Tell whether a file of this name makes its folder a project of this kind."""

    def reads(self, path: str) -> bool:
        """Tell whether the guess depends on the text of a file, by its path from the project's folder."""

    def guess(self, project: Project) -> Guess | None:
        """Return the gates of a project, or None for another kind. Pure: it reads only the project."""


class Language(Struct, frozen=True, kw_only=True):
    """A kind of project whose gates AOP can guess."""

    name: str
    profile: str
    """The name of its gate profile if there are several."""
    suffixes: tuple[str, ...]
    """The suffixes of its source files."""
    rules: LanguageRules


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
    """Return a guess: `setup` and the tests in every mode, the checks in `full`; `reporting` tests write a report."""
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
    """Return the parser of the JUnit report that the tests of `full` and `merge` write."""
    return TestsParser(type="junit_xml", path=path, modes=(Mode.FULL, Mode.MERGE))


def printed_report(kind: Literal["go_test_json", "cargo_test"], step: Step) -> TestsParser:
    """Return the parser of what the tests of `full` and `merge` print."""
    return TestsParser(type=kind, step=step.name, modes=(Mode.FULL, Mode.MERGE))


def monorepo_note(kind: str, members: Sequence[str] = ()) -> str:
    """Return the note for a repository with several packages under one profile."""
    named = ": " + ", ".join(f"`{member}`" for member in members) if members else ""
    return f"This is a monorepo ({kind}{named}). Its gates run for all packages, whichever a feature changes."


def caches_note(fill: str, *, read: Sequence[str] = (), write: Sequence[str] = ()) -> str:
    """Return the note on the caches that gates need, and the lines of policy.yaml that open them."""
    return (
        f"Gates have no network and an empty home folder, so they use the packages that {fill} has downloaded before."
        f" In policy.yaml, {' and '.join(_lines(read, write))}."
    )


def _lines(read: Sequence[str], write: Sequence[str]) -> Iterator[str]:
    if read:
        yield f"`execution.sandbox_read: [{', '.join(read)}]` lets them read these"
    if write:
        yield (
            f"`execution.sandbox_write: [{', '.join(write)}]` lets them read and change these, which the tools require"
            " (the tests of one feature can therefore break those of others)"
        )
