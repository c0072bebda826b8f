"""Gradle projects: gates of Java or Kotlin projects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.adapters.projects.guesses import ChosenStep, Guess, Project, caches_note, guess_of, junit_report, monorepo_note
from aop.kernel.config.gates import Parsers, Step

BUILDS = ("build.gradle.kts", "build.gradle")
SETTINGS = ("settings.gradle.kts", "settings.gradle")
WRAPPER = "gradlew"
REPORTS = "build/test-results/test/TEST-*.xml"
CACHES = ("~/.gradle/caches", "~/.gradle/wrapper")
"""Not `~/.gradle`, whose properties hold passwords. Gradle locks files in both, so they must be writable."""

_INCLUDE = re.compile(r"^\s*include\b\s*\(?(?P<projects>[^\n)]*)", re.MULTILINE)
_NAME = re.compile(r"""["']([^"']+)["']""")


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Gradle project."""
    return name in BUILDS or name in SETTINGS


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path in SETTINGS


def guess(project: Project) -> Guess | None:
    """Return the gates of a Gradle project; None for another project."""
    manifest = project.first_of(*BUILDS, *SETTINGS)
    if manifest is None:
        return None
    included = sorted(_included(project))
    has_tests = project.any_below("src/test")
    tests = _step(project, "test", f"`{manifest}` and tests below `src/test` exist")
    whole = _step(project, "check", f"`{manifest}`: the task `check` runs the tests and all other checks of the build")
    return guess_of(
        tests=[tests] if has_tests else (),
        reporting=[whole] if has_tests else None,
        parsers=Parsers(tests=junit_report(f"**/{REPORTS}" if included else REPORTS) if has_tests else None),
        notes=tuple(_notes(included)),
        sandbox_write=CACHES,
    )


def _included(project: Project) -> set[str]:
    texts = (project.texts.get(path, "") for path in SETTINGS)
    return {name for text in texts for match in _INCLUDE.finditer(text) for name in _NAME.findall(match["projects"])}


def _step(project: Project, task: str, why: str) -> ChosenStep:
    program = f"./{WRAPPER}" if WRAPPER in project.paths else "gradle"
    return ChosenStep(step=Step(name="test", cmd=(program, "--offline", "--no-daemon", "--quiet", task)), why=why)


def _notes(included: list[str]) -> Iterator[str]:
    if included:
        yield monorepo_note("Gradle projects", included)
    yield caches_note("Gradle build", write=CACHES)
