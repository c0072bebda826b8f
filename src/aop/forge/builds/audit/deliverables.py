"""Deliverables: the paths and subjects of a phase, and the files of each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from aop.core.paths.globs import flaw_in, is_glob, matches
from aop.forge.contracts.shapes.phases import Phase

_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_PATH = re.compile(r"[\w@.*?][\w@.*?/+-]*")
_METHOD = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) +")
_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|[0-9]+")
_BARE_NAMES = frozenset({"Dockerfile", "Makefile", "Procfile", "LICENSE", "README", "Containerfile", "Jenkinsfile"})
_COMPANIONS = frozenset(
    "__init__.py py.typed conftest.py package.json pyproject.toml setup.cfg setup.py tsconfig.json Cargo.toml go.mod"
    " pom.xml package-lock.json pnpm-lock.yaml yarn.lock poetry.lock uv.lock Cargo.lock go.sum .gitignore .gitkeep"
    " requirements.txt requirements-dev.txt".split()
)
"""Files that a package or a program needs beside those that a phase names."""
_PLAIN_WORDS = frozenset(
    {"test", "tests", "spec", "py", "js", "ts", "index", "init", "main", "src", "app", "api", "page"}
)


class Deliverable(Struct, frozen=True, kw_only=True):
    """One deliverable of a phase, and all that its text names in backticks."""

    phase: int
    text: str
    paths: tuple[str, ...] = ()
    """Files, folders and globs."""
    subjects: tuple[str, ...] = ()
    """Words of tables, routes and parts, as they stand in names of files."""


def deliverables_of(phases: Iterable[Phase]) -> tuple[Deliverable, ...]:
    """Return the deliverables of phases, in order."""
    return tuple(_deliverable(phase.number, text) for phase in phases for text in phase.deliverables)


def owner_of(path: str, deliverables: Sequence[Deliverable]) -> Deliverable | None:
    """Return the deliverable that a file belongs to: by its path, as a test or companion of one, or by a subject."""
    for belongs in (_is_named, _is_beside, _is_about):
        found = next((each for each in deliverables if belongs(path, each)), None)
        if found is not None:
            return found
    return None


def files_of(deliverable: Deliverable, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the files that show a deliverable: those that it names, or else those about its subjects."""
    every = tuple(paths)
    named = tuple(path for path in every if _is_named(path, deliverable))
    return named or tuple(path for path in every if _is_about(path, deliverable))


def missing_paths(deliverable: Deliverable, paths: Sequence[str]) -> tuple[str, ...]:
    """Return what a deliverable names and no file is."""
    return tuple(name for name in deliverable.paths if not any(_covers(name, path) for path in paths))


def words_of(path: str) -> frozenset[str]:
    """Return the words of a file's name and of its folder, in the singular and in small letters."""
    stem = posixpath.splitext(posixpath.basename(path))[0]
    folder = posixpath.basename(posixpath.dirname(path))
    return frozenset(_singular(word.lower()) for word in _WORD.findall(f"{folder} {stem}"))


def _deliverable(phase: int, text: str) -> Deliverable:
    paths: list[str] = []
    subjects: list[str] = []
    for quoted in _QUOTED.findall(text):
        name = _METHOD.sub("", quoted.strip(), count=1)
        if _is_path(name):
            paths.append(name.removeprefix("./"))
        else:
            subjects += [_singular(word.lower()) for word in _WORD.findall(re.sub(r"\{[^}]*\}|:\w+", "", name))]
    useful = (word for word in subjects if word not in _PLAIN_WORDS and len(word) > 1)
    return Deliverable(phase=phase, text=text, paths=tuple(dict.fromkeys(paths)), subjects=tuple(dict.fromkeys(useful)))


def _is_path(name: str) -> bool:
    if name.startswith("/") or ".." in name.split("/") or _PATH.fullmatch(name.removeprefix("./")) is None:
        return False
    if is_glob(name) and flaw_in(name.split("/")):
        return False
    return "/" in name or name in _BARE_NAMES or re.search(r"\.[A-Za-z][A-Za-z0-9]{0,9}$", name) is not None


def _covers(name: str, path: str) -> bool:
    bare = name.rstrip("/")
    if is_glob(bare):
        return matches(bare, path) or matches(f"{bare}/**", path)
    is_bare_name = "/" not in bare and not name.endswith("/")
    return path == bare or path.startswith(f"{bare}/") or (is_bare_name and posixpath.basename(path) == bare)


def _is_named(path: str, deliverable: Deliverable) -> bool:
    return any(_covers(name, path) for name in deliverable.paths)


def _is_beside(path: str, deliverable: Deliverable) -> bool:
    """Tell whether a file is a test of a named one, or what its folder or the program needs."""
    name, folder = posixpath.basename(path), posixpath.dirname(path)
    if name in _COMPANIONS:
        return any(_lies_below(named, folder) for named in deliverable.paths) or name == "conftest.py"
    if not _is_test(path):
        return False
    words = words_of(name) - _PLAIN_WORDS
    return any(words & (words_of(posixpath.basename(named)) - _PLAIN_WORDS) for named in deliverable.paths) or (
        not words and bool(deliverable.paths)
    )


def _is_about(path: str, deliverable: Deliverable) -> bool:
    return bool(words_of(path).intersection(deliverable.subjects))


def _is_test(path: str) -> bool:
    return any(part in ("test", "tests", "__tests__", "spec") for part in path.split("/")[:-1]) or bool(
        {"test", "tests", "spec"} & {word.lower() for word in _WORD.findall(posixpath.basename(path))}
    )


def _lies_below(named: str, folder: str) -> bool:
    return not folder or named.startswith(f"{folder}/")


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
