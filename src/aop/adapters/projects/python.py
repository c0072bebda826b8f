"""Guesses the gates of a Python project from its lock file, its settings and its tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aop.adapters.projects.view import Guess, Project
from aop.kernel.config_models import CoverageParser, Modes, Parsers, ParserType, Profile, Step

RUNNERS = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv"}
"""The lock files of the programs that run others in an environment of the project's own: `uv run ...`."""

SETTINGS = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml")
COVERAGE = ("--cov", "--cov-branch", "--cov-report=xml:coverage.xml")

_REQUIREMENTS = re.compile(r"(?:requirements[^/]*|requirements/[^/]+)\.(?:txt|in)")
_UNITTEST_FILE = re.compile(r"(?:.*/)?test[^/]*\.py")
_TEST_FILE = re.compile(r"(?:.*/)?(?:test[^/]*|[^/]*_test)\.py")
_MYPY_SETTINGS = re.compile(r"^\[(?:tool\.)?mypy\]\s*$(?P<body>(?:\n(?!\[).*)*)", re.MULTILINE)
_MYPY_TARGETS = re.compile(r"^(?:files|packages|modules)\s*=", re.MULTILINE)


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return path in SETTINGS or bool(_REQUIREMENTS.fullmatch(path) or _TEST_FILE.fullmatch(path))


def guess(project: Project) -> Guess | None:
    """Return the gates of a Python project; None if it is none."""
    if not any(_marks_python(path) for path in project.paths):
        return None
    tests = tuple(_test_steps(project))
    covered = bool(tests) and _mentions(project, "pytest-cov", "pytest_cov")
    checks = (*_lint_steps(project), *_type_steps(project))
    return Guess(
        profile=Profile(
            modes=Modes(fast=tests, full=(*checks, *tests), merge=tests),
            parsers=Parsers(coverage=_coverage_parser() if covered else None),
        ),
        notes=tuple(_notes(project, has_tests=bool(tests), covered=covered)),
    )


def _marks_python(path: str) -> bool:
    is_setting = path in ("pyproject.toml", "setup.py", "setup.cfg") or path in RUNNERS
    return is_setting or bool(_REQUIREMENTS.fullmatch(path) or _TEST_FILE.fullmatch(path))


def _runner(project: Project) -> str | None:
    return next((runner for lock, runner in RUNNERS.items() if lock in project.paths), None)


def _step(project: Project, name: str, *words: str) -> Step:
    runner = _runner(project)
    prefix = (runner, "run") if runner else ()
    return Step(name=name, cmd=(*prefix, "python3", "-m", *words), env=_environment(project, runner))


def _environment(project: Project, runner: str | None) -> dict[str, str]:
    # A package that is installed in editable mode is the one of the user's checkout: without this, the gates of a
    # worktree would test other code than the worktree's. Only uv installs each worktree itself.
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in project.paths)
    return {"PYTHONPATH": "src"} if in_src and runner != "uv" else {}


# --- tests -----------------------------------------------------------------------------------------


def _test_steps(project: Project) -> Iterator[Step]:
    if _uses_pytest(project):
        # The report is read after every mode of the profile, so every mode writes it.
        coverage = COVERAGE if _mentions(project, "pytest-cov", "pytest_cov") else ()
        yield _step(project, "test", "pytest", "-q", *coverage)
    elif any("unittest" in text for path, text in project.texts.items() if _UNITTEST_FILE.fullmatch(path)):
        folders = sorted({_import_root(path, project) for path in project.paths if _UNITTEST_FILE.fullmatch(path)})
        for number, folder in enumerate(folders, start=1):
            start = ("-s", folder) if folder else ()
            yield _step(project, "test" if number == 1 else f"test-{number}", "unittest", "discover", *start)


def _uses_pytest(project: Project) -> bool:
    by_name = {path.rpartition("/")[2] for path in project.paths} & {"conftest.py", "pytest.ini"}
    imported = any("import pytest" in text for path, text in project.texts.items() if _TEST_FILE.fullmatch(path))
    return bool(by_name) or imported or _mentions(project, "pytest")


def _mentions(project: Project, *names: str) -> bool:
    texts = [text for path, text in project.texts.items() if not _TEST_FILE.fullmatch(path)]
    return any(name in text for name in names for text in texts)


def _import_root(path: str, project: Project) -> str:
    """Return the folder from which a file can be imported: the nearest one above it that is no package."""
    folder = path.rpartition("/")[0]
    while folder and f"{folder}/__init__.py" in project.paths:
        folder = folder.rpartition("/")[0]
    return folder


def _coverage_parser() -> CoverageParser:
    return CoverageParser(type=ParserType.COBERTURA_XML, path="coverage.xml")


# --- checks ----------------------------------------------------------------------------------------


def _lint_steps(project: Project) -> Iterator[Step]:
    has_own_file = bool({"ruff.toml", ".ruff.toml"} & project.paths)
    if has_own_file or "[tool.ruff" in project.texts.get("pyproject.toml", ""):
        yield _step(project, "lint", "ruff", "check")


def _type_steps(project: Project) -> Iterator[Step]:
    places = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")
    found = (_MYPY_SETTINGS.search(project.texts.get(place, "")) for place in places)
    settings = next((match for match in found if match), None)
    if settings:
        targets = () if _MYPY_TARGETS.search(settings["body"]) else (".",)
        yield _step(project, "types", "mypy", *targets)


# --- what to know ----------------------------------------------------------------------------------


def _notes(project: Project, *, has_tests: bool, covered: bool) -> Iterator[str]:
    runner = _runner(project)
    if not has_tests:
        yield (
            "No tests were found. The modes without steps cannot pass: write the commands that prove a change into"
            " gates.yaml."
        )
    elif runner:
        yield (
            f"`{runner} run` sets its environment up in every new worktree, and gates have no network and an empty home"
            " folder. If they lack packages, set `execution.network: host` in policy.yaml, or name a folder with the"
            " packages under `execution.sandbox_read`."
        )
    elif _uses_pytest(project):
        yield (
            "The gates run the `python3` that comes first on PATH: start `aop` with this project's virtual environment"
            " active."
        )
    if covered:
        yield (
            "With a coverage report, the gates demand 90 % of lines and branches. `testing.coverage.minimums` in"
            " policy.yaml changes that."
        )
