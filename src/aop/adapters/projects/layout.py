"""Layout of a repository: its projects and their gate profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.adapters.projects.guesses import Guess, Language, Project
from aop.kernel.config import checks
from aop.kernel.config.gates import Mode, Modes, Parsers, Profile, Step

DEEPEST = 3
MOST_PROJECTS = 12
NOT_OURS = frozenset(
    "example examples fixture fixtures node_modules sample samples template templates test testdata tests third_party"
    " vendor".split()
)
"""Folders with third-party projects or test data."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class FoundProject(Struct, frozen=True, kw_only=True):
    """A project of one kind, its folder, and its guessed gates."""

    language: Language
    folder: str
    """Empty for the root."""
    guess: Guess
    sources: int
    inside: Project
    """The files of its folder."""

    @property
    def title(self) -> str:
        """Return the name that people are shown."""
        return f"{self.language.name} in `{self.folder}`" if self.folder else self.language.name


def find_projects(project: Project, languages: Sequence[Language]) -> tuple[FoundProject, ...]:
    """Return the projects of a repository, the main one first: nearest to the root, with the most source files."""
    found = [one for language in languages for one in _of_language(project, language)]
    if not found:
        # Without a manifest, test files alone are a sign.
        found = [one for language in languages for one in _in_folder(project, language, "")]
    proving = [one for one in found if one.guess.proves] or found[:1]
    ranked = sorted(proving, key=lambda one: (bool(one.folder), one.folder.count("/"), -one.sources))
    return tuple(ranked[:MOST_PROJECTS])


def projects_by_profile(found: Sequence[FoundProject]) -> dict[str, FoundProject]:
    """Return the projects by the names of their gate profiles; `default` is the only one or the main one."""
    names = {"default": one for one in found[:1]}  # noqa: B035 - none or one
    for one in found if len(found) > 1 else ():
        likely = _NOT_IN_NAMES.sub("-", one.folder.replace("/", "-")).strip("-._")[:48] or one.language.profile
        is_taken = likely.casefold() in {name.casefold() for name in names}
        names[f"{likely}-{one.language.profile}" if is_taken else likely] = one
    return names


def _of_language(project: Project, language: Language) -> list[FoundProject]:
    """Return the projects of a language, without those inside another project that has gates."""
    found: list[FoundProject] = []
    for folder in sorted(_marked_folders(project, language), key=lambda folder: (folder.count("/"), folder)):
        outer = (one for one in found if one.guess.proves)
        if not any(not one.folder or folder.startswith(f"{one.folder}/") for one in outer):
            found += _in_folder(project, language, folder)
    return found


def _in_folder(project: Project, language: Language, folder: str) -> Iterator[FoundProject]:
    inside = project.below(folder)
    guess = language.rules.guess(inside)
    if guess is not None:
        sources = sum(path.endswith(language.suffixes) for path in inside.paths)
        yield FoundProject(
            language=language, folder=folder, guess=_from_root(guess, folder), sources=sources, inside=inside
        )


def _marked_folders(project: Project, language: Language) -> set[str]:
    splits = (path.rpartition("/")[::2] for path in project.paths)
    return {folder for folder, name in splits if language.rules.marks(name) and _is_ours(folder)}


def _is_ours(folder: str) -> bool:
    if not folder:
        return True
    parts = folder.split("/")
    is_near = len(parts) <= DEEPEST and not any(part in NOT_OURS or part.startswith(".") for part in parts)
    # A configuration file cannot name every folder that git can store.
    return is_near and not (checks.in_path(folder) or checks.in_planned_path(f"{folder}/*"))


def _from_root(guess: Guess, folder: str) -> Guess:
    """Return a guess whose steps run in a folder."""
    if not folder:
        return guess
    profile = guess.profile
    steps: Mapping[Mode, tuple[Step, ...]] = {
        mode: tuple(msgspec.structs.replace(step, cwd=folder) for step in profile.modes.steps(mode) or ())
        for mode in Mode
    }
    modes = Modes(fast=steps[Mode.FAST], full=steps[Mode.FULL], merge=steps[Mode.MERGE])
    moved = Profile(modes=modes, parsers=_parsers_from_root(profile.parsers, folder))
    return msgspec.structs.replace(guess, profile=moved)


def _parsers_from_root(parsers: Parsers, folder: str) -> Parsers:
    coverage, tests = parsers.coverage, parsers.tests
    return Parsers(
        coverage=coverage and msgspec.structs.replace(coverage, path=f"{folder}/{coverage.path}"),
        tests=msgspec.structs.replace(tests, path=f"{folder}/{tests.path}") if tests and tests.path else tests,
    )
