"""Test commands that a project's own files name, and set-up commands that install its packages."""

from __future__ import annotations

import pytest

from aop.adapters.projects.guesses import Project
from aop.adapters.projects.trials.installs import node_install, python_installs
from aop.adapters.projects.trials.test_commands import commands_of, words_of

PYTEST = "python3 -m pytest tests/"


def project(**files: str) -> Project:
    return Project(paths=frozenset(files), texts=files)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pytest -q tests", "python3 -m pytest -q tests"),
        ("{envpython} -m pytest {posargs:tests}", "python3 -m pytest"),
        ("uv run pytest --cov=shop tests", "python3 -m pytest tests"),
        ("coverage run -m pytest tests", "python3 -m pytest tests"),
        ("python -m unittest discover", "python3 -m unittest discover"),
        ("npm test", "npm test"),
        ("pytest && rm -rf /", ""),
        ("pytest $(cat secret)", ""),
        ("pytest 'open", ""),
    ],
)
def test_a_command_is_read_word_by_word_and_none_that_needs_a_shell(text: str, words: str) -> None:
    assert " ".join(words_of(text)) == words


@pytest.mark.parametrize(
    ("path", "text", "command"),
    [
        (
            "tox.ini",
            "[tox]\n[testenv]\ncommands =\n    pytest tests/ {posargs}\n    flake8\n",
            PYTEST,
        ),
        ("tox.ini", "[testenv:docs]\ncommands = pytest docs\n", ""),
        ("noxfile.py", 'def tests(session):\n    session.run("pytest", "tests/", *session.posargs)\n', PYTEST),
        ("pyproject.toml", '[tool.hatch.envs.default.scripts]\ntest = "pytest tests/ {args}"\n', PYTEST),
        (
            ".github/workflows/ci.yml",
            "steps:\n  - run: pytest tests/\n  - run: curl x\n",
            PYTEST,
        ),
        (".github/workflows/ci.yml", "steps:\n  - run: |\n      pip install .\n      pytest tests/\n", PYTEST),
        ("Makefile", "lint:\n\truff\ntest: lint\n\tpytest tests/\n", "make test"),
        ("Makefile", "TEST := 1\ntests:=2\n", ""),
    ],
)
def test_files_name_the_test_command(path: str, text: str, command: str) -> None:
    found = commands_of(project(**{path: text}))
    assert [" ".join(one.words) for one in found] == ([command] if command else [])
    assert all(one.where == path for one in found)


def test_the_parts_of_a_node_script_are_tried_without_the_linter_beside_them() -> None:
    manifest = '{"scripts": {"test": "xo && nyc ava --serial && tsd", "tests-only": "tape \'test/**/*.js\'"}}'
    assert [" ".join(one.words) for one in commands_of(project(**{"package.json": manifest}))] == [
        "npm run tests-only",
        "node_modules/.bin/ava --serial",
        "node_modules/.bin/tape test/**/*.js",
    ]


def test_a_manifest_that_is_broken_names_nothing() -> None:
    assert commands_of(project(**{"package.json": "{", "pyproject.toml": "["})) == ()
    assert commands_of(project(**{"package.json": '{"scripts": []}'})) == ()


def test_pip_installs_the_project_with_its_extras_and_groups_for_tests() -> None:
    manifest = (
        '[build-system]\nrequires = ["setuptools_scm"]\n[project]\nname = "shop"\n'
        '[project.optional-dependencies]\ndocs = ["sphinx"]\ntest = ["pytest"]\n'
        '[dependency-groups]\ndev = ["freezegun", {include-group = "test"}, "--no-index"]\n'
    )
    (commands,) = python_installs(project(**{"pyproject.toml": manifest}), "", ignored=False)
    assert [command.cmd for command in commands] == [
        ("python3", "-m", "venv", ".venv"),
        ("python3", "-c", "open('.venv/.gitignore', 'w').write('*')"),
        (
            *("env", "SETUPTOOLS_SCM_PRETEND_VERSION=99.0.0", ".venv/bin/python", "-m", "pip", "install", "--quiet"),
            *("--disable-pip-version-check", "-e", ".[test]", "freezegun", "pytest"),
        ),
    ]
    assert [command.network for command in commands] == [None, None, "host"]
    assert commands[-1].inputs == ("pyproject.toml",)


def test_a_lock_of_uv_is_tried_first() -> None:
    ways = list(python_installs(project(**{"pyproject.toml": "", "uv.lock": ""}), "", ignored=True))
    assert [way[-1].cmd[:2] for way in ways] == [("uv", "sync"), (".venv/bin/python", "-m")]


@pytest.mark.parametrize(
    ("lock", "folder", "words"),
    [
        ("package-lock.json", "", "npm ci --no-audit --no-fund"),
        ("pnpm-lock.yaml", "", "pnpm install --frozen-lockfile"),
        ("package-lock.json", "web", "npm --prefix web ci --no-audit --no-fund"),
        ("README.md", "", "npm install --no-audit --no-fund --no-package-lock"),
    ],
)
def test_node_packages_are_installed_by_the_lock_file(lock: str, folder: str, words: str) -> None:
    (command,) = node_install(project(**{"package.json": "{}", lock: ""}), folder)
    assert (" ".join(command.cmd), command.network) == (words, "host")
