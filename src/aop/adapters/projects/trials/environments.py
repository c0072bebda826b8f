"""Environments: packages that the checkout has installed, outside of git."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.git.process.output import split_names
from aop.adapters.git.repository import Repository
from aop.adapters.projects.drafts import INSTALL, Draft
from aop.kernel.config.gates import Mode, Step

NODE = "Node"
PYTHON = "Python"
PACKAGES = "node_modules"
VIRTUAL = (".venv", "venv", "env")
GENERATED = (".py", ".so", ".mo", ".js", ".json")
PRIVATE = re.compile(
    r"(?<![a-z])(?:secrets?|credentials?|passwords?|passwd|tokens?|private|service[-_]?accounts?|local|personal|keys?"
    r"|auth|env)(?![a-z]).*\.(?:py|js|json)",
    re.IGNORECASE,
)
"""The path of a file that a person may have written, with what no agent's code should read."""
MOST_GENERATED = 200
MOST_ALIKE = 3
WORDS_BEFORE_PYTHON = 3
"""The longest prefix is `uv run python3`."""


class Environments(Struct, frozen=True, kw_only=True):
    """What is installed in a checkout, and what git would ignore there."""

    present: frozenset[str] = frozenset()
    """Folders from the root that exist and that git does not track."""
    ignored: frozenset[str] = frozenset()
    """Folders, present or not, that git ignores."""
    generated: tuple[str, ...] = ()
    """Files among the sources that a build made and git ignores."""

    def python_of(self, folder: str) -> str | None:
        """Return the virtual environment of a project, in its folder or at the root."""
        return next((place for place in _places(folder, VIRTUAL) if place in self.present), None)

    def packages_of(self, folder: str) -> str | None:
        """Return the `node_modules` of a project."""
        return next((place for place in _places(folder, (PACKAGES,)) if place in self.present), None)


def _places(folder: str, names: tuple[str, ...]) -> Iterator[str]:
    for base in dict.fromkeys((folder, "")):
        yield from (posixpath.join(base, name) for name in names)


def environments_of(repository: Repository, folders: tuple[str, ...]) -> Environments:
    """Look for the environments of projects in a checkout."""
    wanted = dict.fromkeys(place for folder in folders for place in _places(folder, (*VIRTUAL, PACKAGES)))
    root = repository.root
    # A link is not followed: `worktree.link` refuses it.
    there = [place for place in wanted if _is_environment(root, place) and not (root / place).is_symlink()]
    tracked = {place for place in there if repository.git.run("ls-files", "-z", "--", place).out}
    return Environments(
        present=frozenset(there) - tracked,
        ignored=_ignored(repository, tuple(wanted)),
        generated=_generated(repository),
    )


def _generated(repository: Repository) -> tuple[str, ...]:
    # A folder that is ignored as a whole is one name that ends with a slash: caches, environments, builds.
    words = ("--others", "--ignored", "--exclude-standard", "--directory", "-z")
    listed = split_names(repository.git.run("ls-files", *words).out)
    found = [path for path in listed if path.endswith(GENERATED) and "/" in path and not path.startswith(".")]
    return tuple(as_patterns(found)) if len(found) <= MOST_GENERATED else ()


def as_patterns(paths: Sequence[str]) -> Iterator[str]:
    """Yield paths, without private files; one pattern stands for many with one suffix if it names none of them."""
    for suffix in GENERATED:
        every = sorted(path for path in paths if path.endswith(suffix))
        alike = [path for path in every if not PRIVATE.search(path)]
        if len(alike) > MOST_ALIKE and alike == every:
            yield f"{posixpath.commonpath([posixpath.dirname(path) for path in alike])}/**/*{suffix}"
        else:
            yield from alike


def _ignored(repository: Repository, places: tuple[str, ...]) -> frozenset[str]:
    names = b"".join(f"{place}/x\0".encode() for place in places)
    # `check-ignore` takes no literal names, and these come over its input, where nothing is a pattern.
    plain = {"GIT_LITERAL_PATHSPECS": "0"}
    ran = repository.git.run("check-ignore", "-z", "--stdin", stdin=names, environment=plain, fine=(0, 1))
    return frozenset(name.removesuffix("/x") for name in split_names(ran.out))


def _is_environment(root: Path, place: str) -> bool:
    if place.endswith(PACKAGES):
        return (root / place).is_dir()
    return os.access(root / place / "bin" / "python", os.X_OK)


def in_own_environment(draft: Draft, environments: Environments) -> Draft:
    """Return a draft that uses what the checkout has installed, or the same one if there is nothing."""
    folder = draft.found.folder
    if draft.found.language.name == PYTHON and (place := environments.python_of(folder)):
        return with_link(with_python(draft, place), place, f"the Python of `{place}`")
    if draft.found.language.name == NODE and (place := environments.packages_of(folder)):
        return with_link(without_install(draft), place, f"the packages in `{place}`")
    return draft


def with_link(draft: Draft, place: str, what: str) -> Draft:
    """Return a draft whose worktrees link to a folder of the checkout."""
    text = f"use {what}, linked into each worktree (worktree.link)"
    return msgspec.structs.replace(draft, links=(*draft.links, place), cures=(*draft.cures, text))


def with_python(draft: Draft, place: str) -> Draft:
    """Return a draft whose steps run the Python of a virtual environment, a folder from the root."""
    python = posixpath.relpath(f"{place}/bin/python", draft.found.folder or ".")
    steps = {mode: [_on_python(draft, step, python) for step in draft.steps(mode)] for mode in Mode}
    return _without_hints(draft).with_steps(steps)


def _on_python(draft: Draft, step: Step, python: str) -> Step:
    words = step.cmd
    at = next((at for at, word in enumerate(words[:WORDS_BEFORE_PYTHON]) if word == "python3"), None)
    if at is None:
        return step
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in draft.found.inside.paths)
    # An editable install leads to the user's checkout, and the gates must test the worktree.
    env = {**step.env, "PYTHONPATH": "src"} if in_src else step.env
    return msgspec.structs.replace(step, cmd=(python, *words[at + 1 :]), env=env)


def without_install(draft: Draft) -> Draft:
    """Return a draft without the step that installs packages."""
    steps = {mode: [step for step in draft.steps(mode) if step.name != INSTALL] for mode in Mode}
    return _without_hints(draft, sandbox_read=(), sandbox_write=()).with_steps(steps)


def _without_hints(draft: Draft, **changes: tuple[str, ...]) -> Draft:
    guess = msgspec.structs.replace(draft.found.guess, hints=(), **changes)
    return msgspec.structs.replace(draft, found=msgspec.structs.replace(draft.found, guess=guess))
