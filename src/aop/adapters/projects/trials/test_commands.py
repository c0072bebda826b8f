"""Test commands that a project's own files name: tox, nox, CI, Makefile, scripts."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from aop.adapters.projects.guesses import Project

_WORKFLOW = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_OTHERS = ("tox.ini", "noxfile.py", "Makefile", ".gitlab-ci.yml", ".travis.yml", ".circleci/config.yml")
_SHELL = frozenset("&|;<>$`(){}*?\\\n")
_TESTENV = re.compile(r"^\[testenv\]\s*$(?P<body>(?:\n(?!\[).*)*)", re.MULTILINE)
_COMMANDS = re.compile(r"^commands\s*=[ \t]*(?P<body>.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_SUBSTITUTION = re.compile(r"\{posargs[^}]*\}")
_MAKE_TARGET = re.compile(r"^(?P<name>test|tests|check)\s*:(?!=)", re.MULTILINE)
_NOX_RUN = re.compile(r"session\.run\((?P<words>(?:\s*(?:\"[^\"\n]*\"|'[^'\n]*')\s*,?)+)")
_CI_LINE = re.compile(r"^\s*(?:-\s+)?(?:(?:run|script):\s*)?(?P<command>[a-z][^#]*?)\s*$", re.MULTILINE)
_STARTS = re.compile(
    r"(?:(?:uv|poetry|pdm|hatch|pipenv) run )?(?:python3? -m |coverage run -m )?(?:pytest|unittest)\b"
    r"|(?:npm|yarn|pnpm) (?:run )?(?:test|unit)[\w:-]*|node --test|make (?:test|check)\b|python3? setup\.py test"
)
_RUNNERS = ("uv", "poetry", "pdm", "hatch", "pipenv")
_NODE_SCRIPTS = ("tests-only", "test:unit", "unit", "test:node", "test-node", "test:only", "mocha", "tape", "ava")
_NODE_RUNNERS = ("ava", "mocha", "tape", "jest", "vitest", "tap", "uvu", "jasmine", "xv")
_NODE_WRAPPERS = ("nyc", "c8", "cross-env", "istanbul")


class TestCommand(Struct, frozen=True, kw_only=True):
    """A command that runs a project's tests, and the file that names it."""

    words: tuple[str, ...]
    where: str


def reads(path: str) -> bool:
    """Tell whether a file can name test commands."""
    return path in _OTHERS or bool(_WORKFLOW.fullmatch(path))


def commands_of(project: Project) -> tuple[TestCommand, ...]:
    """Return the test commands that files of a project name, each once. They are data: nothing is run here."""
    found = (*_of_node(project), *_of_tox(project), *_of_scripts(project), *_of_nox(project), *_of_ci(project))
    plain = {one.words: one for one in reversed([*found, *_of_make(project)]) if one.words}
    return tuple(reversed(plain.values()))


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a plain command without wrappers; none if it needs a shell. `python3` stands for Python."""
    text = _SUBSTITUTION.sub("", text).replace("{envpython}", "python").strip()
    if _SHELL.intersection(text):
        return ()
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    if words[:1] and words[0] in _RUNNERS and words[1:2] == ["run"]:
        words = words[2:]
    if words[:2] == ["coverage", "run"] and "-m" in words:
        words = ["python", *words[words.index("-m") :]]
    if words[:1] == ["pytest"]:
        words = ["python", "-m", *words]
    if words[:1] and words[0] in ("python", "python3"):
        words = ["python3", *(word for word in words[1:] if not word.startswith("--cov"))]
    return tuple(words)


def _of_tox(project: Project) -> Iterator[TestCommand]:
    section = _TESTENV.search(project.texts.get("tox.ini", ""))
    commands = _COMMANDS.search(section["body"]) if section else None
    for line in commands["body"].splitlines() if commands else ():
        if _STARTS.match(line.strip()):
            yield TestCommand(words=words_of(line), where="tox.ini")


def _of_scripts(project: Project) -> Iterator[TestCommand]:
    try:
        manifest = tomllib.loads(project.texts.get("pyproject.toml", ""))
    except tomllib.TOMLDecodeError:
        return
    places = (("hatch", "envs", "default", "scripts"), ("hatch", "envs", "test", "scripts"), ("pdm", "scripts"))
    for keys in (*places, ("poe", "tasks")):
        table: Any = manifest.get("tool", {})
        for key in keys:
            table = table.get(key, {}) if isinstance(table, Mapping) else {}
        script = table.get("test") if isinstance(table, Mapping) else None
        for line in script if isinstance(script, list) else [script]:
            if isinstance(line, str) and _STARTS.match(line):
                text = re.sub(r"\{args[^}]*\}", "", line)
                yield TestCommand(words=words_of(text), where="pyproject.toml")


def _of_nox(project: Project) -> Iterator[TestCommand]:
    for found in _NOX_RUN.finditer(project.texts.get("noxfile.py", "")):
        words = re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'", found["words"])
        text = shlex.join(first or second for first, second in words)
        if _STARTS.match(text):
            yield TestCommand(words=words_of(text), where="noxfile.py")


def _of_ci(project: Project) -> Iterator[TestCommand]:
    for path, text in sorted(project.texts.items()):
        if path in ("tox.ini", "noxfile.py", "Makefile") or not reads(path):
            continue
        for found in _CI_LINE.finditer(text):
            if _STARTS.match(found["command"]):
                yield TestCommand(words=words_of(found["command"]), where=path)


def _of_make(project: Project) -> Iterator[TestCommand]:
    for found in _MAKE_TARGET.finditer(project.texts.get("Makefile", "")):
        yield TestCommand(words=("make", found["name"]), where="Makefile")


def _of_node(project: Project) -> Iterator[TestCommand]:
    try:
        manifest = json.loads(project.texts.get("package.json", "{}").removeprefix("\ufeff"))
    except ValueError:
        return
    scripts = manifest.get("scripts") if isinstance(manifest, dict) else None
    if not isinstance(scripts, dict):
        return
    for name in _NODE_SCRIPTS:
        if name in scripts:
            yield TestCommand(words=("npm", "run", name), where="package.json")
    for name in ("test", *_NODE_SCRIPTS):
        for part in str(scripts.get(name, "")).split("&&"):
            yield TestCommand(words=_of_node_part(part), where="package.json")


def _of_node_part(text: str) -> tuple[str, ...]:
    words = [word for word in text.split() if "=" not in word]
    while words and words[0] in _NODE_WRAPPERS:
        words = [word for at, word in enumerate(words) if at and not (word.startswith("-") and at < 2)]
    # Quotes are those of the shell; a glob in them is expanded by the test runner.
    plain = [word.strip("'\"") for word in words]
    if not plain or _SHELL.difference("*?{}").intersection(" ".join(plain)):
        return ()
    if plain[0] == "node" and len(plain) > 1 and "*" not in text:
        return tuple(plain)
    return (f"node_modules/.bin/{plain[0]}", *plain[1:]) if plain[0] in _NODE_RUNNERS else ()
