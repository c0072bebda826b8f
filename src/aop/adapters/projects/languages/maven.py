"""Maven projects: gates from pom.xml."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.adapters.projects.guesses import ChosenStep, Guess, Project, caches_note, guess_of, junit_report, monorepo_note
from aop.kernel.config.gates import Parsers, Step

MANIFEST = "pom.xml"
WRAPPER = "mvnw"
REPORTS = "target/surefire-reports/TEST-*.xml"
CACHE = "~/.m2/repository"
"""Not `~/.m2`, whose settings hold passwords."""

CHECKING_PLUGINS = ("failsafe", "checkstyle", "spotless", "spotbugs", "pmd", "enforcer", "jacoco")
"""Plugins that run in `verify` or before it, after the unit tests."""

_MODULE = re.compile(r"<module>\s*([^<\s]+)\s*</module>")


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Maven project."""
    return name == MANIFEST


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path == MANIFEST


def guess(project: Project) -> Guess | None:
    """Return the gates of a Maven project; None for another project."""
    if MANIFEST not in project.paths:
        return None
    text = project.texts.get(MANIFEST, "")
    modules = sorted(set(_MODULE.findall(text)))
    has_tests = project.any_below("src/test")
    caches = (CACHE, "~/.m2/wrapper") if WRAPPER in project.paths else (CACHE,)
    return guess_of(
        tests=[_test_step(project)] if has_tests else (),
        reporting=[_verify_step(project, text)] if has_tests else None,
        parsers=Parsers(tests=junit_report(f"**/{REPORTS}" if modules else REPORTS) if has_tests else None),
        notes=tuple(_notes(modules, caches)),
        sandbox_read=caches,
    )


def _step(project: Project, goal: str) -> Step:
    program = f"./{WRAPPER}" if WRAPPER in project.paths else "mvn"
    return Step(name="test", cmd=(program, "--batch-mode", "--quiet", "--offline", goal))


def _test_step(project: Project) -> ChosenStep:
    return ChosenStep(step=_step(project, "test"), why=f"`{MANIFEST}` and tests below `src/test` exist")


def _verify_step(project: Project, text: str) -> ChosenStep:
    plugin = next((name for name in CHECKING_PLUGINS if f"{name}-maven-plugin" in text or f"maven-{name}" in text), "")
    if not plugin:
        return _test_step(project)
    why = f"`{MANIFEST}` has tests and the {plugin} plugin, which runs up to `verify`"
    return ChosenStep(step=_step(project, "verify"), why=why)


def _notes(modules: list[str], caches: tuple[str, ...]) -> Iterator[str]:
    if modules:
        yield monorepo_note("Maven modules", modules)
    yield caches_note("`mvn verify`", read=caches)
