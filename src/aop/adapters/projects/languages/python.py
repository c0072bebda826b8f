"""Python projects: gates from the lock file, the settings and the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from aop.adapters.projects.guesses import ChosenStep, Guess, Project, guess_of, junit_report, monorepo_note
from aop.kernel.config.gates import CoverageParser, Mode, Parsers, ParserType, Step

RUNNERS = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv"}
"""The lock files of programs that run others in the project's environment: `uv run ...`."""

SETTINGS = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml")
REPORT = "junit.xml"
COVERAGE = ("--cov", "--cov-branch", "--cov-report=xml:coverage.xml")

_REQUIREMENTS = re.compile(r"(?:requirements[^/]*|requirements/[^/]+)\.(?:txt|in)")
_UNITTEST_FILE = re.compile(r"(?:.*/)?test[^/]*\.py")
_TEST_FILE = re.compile(r"(?:.*/)?(?:test[^/]*|[^/]*_test)\.py")
_TEST_FUNCTION = re.compile(r"^(?:async )?def test_", re.MULTILINE)
_MYPY_SETTINGS = re.compile(r"^\[(?:tool\.)?mypy\]\s*$(?P<body>(?:\n(?!\[).*)*)", re.MULTILINE)
_MYPY_TARGETS = re.compile(r"^(?:files|packages|modules)\s*=", re.MULTILINE)


def marks(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Python project."""
    return name in ("pyproject.toml", "setup.py", "setup.cfg") or name in RUNNERS or bool(_REQUIREMENTS.fullmatch(name))


def reads(path: str) -> bool:
    """Tell whether the guess depends on the text of a file."""
    return _is_setting(path) or bool(_TEST_FILE.fullmatch(path))


def guess(project: Project) -> Guess | None:
    """Return the gates of a Python project; None for another project."""
    if not any(_marks_python(path) for path in project.paths):
        return None
    with_pytest = bool(_why_pytest(project))
    covered = with_pytest and _mentions(project, "pytest-cov", "pytest_cov")
    coverage = CoverageParser(type=ParserType.COBERTURA_XML, path="coverage.xml", modes=(Mode.FULL, Mode.MERGE))
    tests = [_pytest(project)] if with_pytest else tuple(_unittests(project))
    guessed = guess_of(
        checks=(*_lint(project), *_types(project)),
        tests=tests,
        reporting=[_pytest(project, *(COVERAGE if covered else ()), f"--junitxml={REPORT}")] if with_pytest else None,
        parsers=Parsers(coverage=coverage if covered else None, tests=junit_report(REPORT) if with_pytest else None),
        notes=tuple(_notes(project)),
    )
    return msgspec.structs.replace(guessed, hints=tuple(_hints(project, has_tests=bool(tests), covered=covered)))


def _marks_python(path: str) -> bool:
    return marks(path) or bool(_REQUIREMENTS.fullmatch(path) or _TEST_FILE.fullmatch(path))


def _runner(project: Project) -> str | None:
    return next((runner for lock, runner in RUNNERS.items() if lock in project.paths), None)


def _step(project: Project, name: str, *words: str) -> Step:
    runner = _runner(project)
    prefix = (runner, "run") if runner else ()
    return Step(name=name, cmd=(*prefix, "python3", "-m", *words), env=_environment(project, runner))


def _environment(project: Project, runner: str | None) -> dict[str, str]:
    # An editable install points to the user's checkout: without this, the gates of a worktree would test that code
    # instead of the worktree's. Only uv installs each worktree itself.
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in project.paths)
    return {"PYTHONPATH": "src"} if in_src and runner != "uv" else {}


def _pytest(project: Project, *more: str) -> ChosenStep:
    return ChosenStep(step=_step(project, "test", "pytest", "-q", *more), why=_why_pytest(project))


def _unittests(project: Project) -> Iterator[ChosenStep]:
    files = [path for path in project.paths if _UNITTEST_FILE.fullmatch(path)]
    if not any("unittest" in project.texts.get(path, "") for path in files):
        return
    for number, folder in enumerate(sorted({_import_root(path, project) for path in files}), start=1):
        start = ("-s", folder) if folder else ()
        name = "test" if number == 1 else f"test-{number}"
        why = f"tests in `{folder or '.'}` import unittest, and nothing mentions pytest"
        yield ChosenStep(step=_step(project, name, "unittest", "discover", *start), why=why)


def _why_pytest(project: Project) -> str:
    """Return the first sign of pytest; empty if there is none."""
    for path, text in sorted(project.texts.items()):
        if _is_setting(path) and "pytest" in text:
            return f"`{path}` mentions pytest"
        if _TEST_FILE.fullmatch(path) and "import pytest" in text:
            return f"`{path}` imports pytest"
    by_name = [path for path in sorted(project.paths) if path.rpartition("/")[2] in ("conftest.py", "pytest.ini")]
    if by_name:
        return f"`{by_name[0]}` exists"
    plain = [path for path, text in sorted(project.texts.items()) if _is_plain_test(path, text)]
    return f"`{plain[0]}` has tests as functions" if plain else ""


def _is_plain_test(path: str, text: str) -> bool:
    return bool(_TEST_FILE.fullmatch(path) and _TEST_FUNCTION.search(text))


def _is_setting(path: str) -> bool:
    return path in SETTINGS or bool(_REQUIREMENTS.fullmatch(path))


def _mentions(project: Project, *names: str) -> bool:
    texts = [text for path, text in project.texts.items() if _is_setting(path)]
    return any(name in text for name in names for text in texts)


def _import_root(path: str, project: Project) -> str:
    """Return the folder from which a file can be imported: the nearest one above it that is not a package."""
    folder = path.rpartition("/")[0]
    while folder and f"{folder}/__init__.py" in project.paths:
        folder = folder.rpartition("/")[0]
    return folder


def _lint(project: Project) -> Iterator[ChosenStep]:
    settings = project.first_of("ruff.toml", ".ruff.toml")
    if settings is None and "[tool.ruff" in project.texts.get("pyproject.toml", ""):
        settings = "pyproject.toml"
    if settings:
        yield ChosenStep(step=_step(project, "lint", "ruff", "check"), why=f"`{settings}` has ruff settings")


def _types(project: Project) -> Iterator[ChosenStep]:
    for place in ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"):
        settings = _MYPY_SETTINGS.search(project.texts.get(place, ""))
        if settings:
            targets = () if _MYPY_TARGETS.search(settings["body"]) else (".",)
            yield ChosenStep(step=_step(project, "types", "mypy", *targets), why=f"`{place}` has mypy settings")
            return


def _notes(project: Project) -> Iterator[str]:
    if "[tool.uv.workspace]" in project.texts.get("pyproject.toml", ""):
        yield monorepo_note("uv workspace")


def _hints(project: Project, *, has_tests: bool, covered: bool) -> Iterator[str]:
    runner = _runner(project)
    if runner and has_tests:
        yield (
            f"`{runner} run` creates its environment in every new worktree, but gates have no network and an empty home"
            " folder. If packages are missing, set `execution.network: host` in policy.yaml, or list a folder with the"
            " packages in `execution.sandbox_read`."
        )
    elif _why_pytest(project):
        yield (
            "The gates run the first `python3` on PATH: activate this project's virtual environment before you start"
            " `aop`."
        )
    if covered:
        yield (
            "With a coverage report, the gates require 90 % of lines and branches. Change that with"
            " `testing.coverage.minimums` in policy.yaml."
        )
