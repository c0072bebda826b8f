"""Installs: set-up commands that fetch a project's packages into a worktree."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aop.adapters.projects.guesses import Project
from aop.kernel.config import checks
from aop.kernel.config.worktrees import SetupCommand

TEST_EXTRAS = ("test", "tests", "testing", "dev")
_TEST_REQUIREMENTS = re.compile(
    r"(?:requirements/)?(?:requirements[-_.])?(?:dev|test|tests|testing)(?:[-_]requirements)?\.txt|test-requirements\.txt"
)
_SCM = re.compile(r"setuptools[-_]scm|hatch-vcs|pdm\.backend.*scm|versioningit|setuptools-git-versioning")
_PRETEND = ("env", "SETUPTOOLS_SCM_PRETEND_VERSION=99.0.0")
"""Set-up commands do not see git's history, from which such projects read their version. Others need a high one."""
_NODE_LOCKS = {
    "package-lock.json": ("npm", "ci", "--no-audit", "--no-fund"),
    "npm-shrinkwrap.json": ("npm", "ci", "--no-audit", "--no-fund"),
    "pnpm-lock.yaml": ("pnpm", "install", "--frozen-lockfile"),
    "yarn.lock": ("yarn", "install", "--frozen-lockfile"),
    "bun.lock": ("bun", "install", "--frozen-lockfile"),
}
_NO_LOCK = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
_IN_FOLDER = {"npm": "--prefix", "pnpm": "--dir", "yarn": "--cwd", "bun": "--cwd"}


def python_installs(project: Project, folder: str, *, ignored: bool) -> Iterator[tuple[SetupCommand, ...]]:
    """Yield the ways to make a virtual environment `.venv` in a project's folder, the project's own first."""
    if "uv.lock" in project.paths and not folder:
        yield (_fetching(("uv", "sync", "--all-extras", "--all-groups"), ("pyproject.toml", "uv.lock")),)
    place = posixpath.join(folder, ".venv")
    made = [SetupCommand(cmd=("python3", "-m", "venv", place))]
    if not ignored:
        # What git does not ignore is removed from a worktree after its set-up.
        made.append(SetupCommand(cmd=("python3", "-c", f"open('{place}/.gitignore', 'w').write('*')")))
    inputs = [path for path in ("pyproject.toml", "setup.cfg", "setup.py") if path in project.paths]
    wanted, files = _wanted(project, folder)
    pip = (f"{place}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    is_scm = any(_SCM.search(project.texts.get(path, "")) for path in inputs)
    every = [posixpath.join(folder, path) for path in (*inputs, *files)]
    yield (*made, _fetching((*_PRETEND, *pip) if is_scm else pip, every))


def node_install(project: Project, folder: str) -> tuple[SetupCommand, ...]:
    """Return the command that installs the packages of a Node project, by its lock file if there is one."""
    lock = project.first_of(*_NODE_LOCKS)
    words = _NODE_LOCKS[lock] if lock else _NO_LOCK
    if folder:
        words = (words[0], _IN_FOLDER[words[0]], folder, *words[1:])
    inputs = [posixpath.join(folder, path) for path in ("package.json", lock) if path]
    return (_fetching(words, inputs),)


def _fetching(words: Sequence[str], inputs: Sequence[str]) -> SetupCommand:
    return SetupCommand(cmd=tuple(words), inputs=tuple(inputs), network="host")


def _wanted(project: Project, folder: str) -> tuple[list[str], list[str]]:
    """Return what pip is to install, and the files of requirements among it."""
    manifest = _manifest(project)
    table = manifest.get("project")
    extras = _keys(table.get("optional-dependencies") if isinstance(table, Mapping) else None)
    chosen = [extra for extra in TEST_EXTRAS if extra in extras]
    files = sorted(path for path in project.paths if _TEST_REQUIREMENTS.fullmatch(path))
    if not files and not chosen and "requirements.txt" in project.paths:
        files = ["requirements.txt"]
    is_package = "setup.py" in project.paths or bool(manifest.keys() & {"project", "build-system"})
    where = f"./{folder}" if folder else "."
    package = ["-e", f"{where}[{','.join(chosen)}]" if chosen else where] if is_package else []
    listed = [word for path in files for word in ("-r", posixpath.join(folder, path))]
    return [*package, *listed, *_group(manifest), "pytest"], files


def _manifest(project: Project) -> Mapping[str, Any]:
    try:
        return tomllib.loads(project.texts.get("pyproject.toml", ""))
    except tomllib.TOMLDecodeError:
        return {}


def _keys(table: object) -> list[str]:
    return list(table) if isinstance(table, Mapping) else []


def _group(manifest: Mapping[str, Any]) -> list[str]:
    """Return the requirements of the groups for tests; what looks like an option of pip is not one."""
    groups = manifest.get("dependency-groups")
    listed = [groups.get(name, ()) for name in TEST_EXTRAS] if isinstance(groups, Mapping) else []
    texts = [one for group in listed if isinstance(group, list) for one in group if isinstance(one, str)]
    return [text for text in dict.fromkeys(texts) if not text.startswith("-") and not checks.in_argument(text)]
