"""Project settings: the parts that decide what tests mean, compared as data.

`pyproject.toml`, `setup.cfg` and `package.json` hold much else that honest features change. So a change of one of them
is judged by what it does to these parts.
"""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Callable, Iterable, Mapping

from aop.core.errors import Json, ProtectedPath
from aop.core.ids import TreeId
from aop.core.text.counts import list_some
from aop.core.text.json import MalformedText, parse_json
from aop.kernel.config.guarded_areas import STEERS_TESTS, GuardedAreas
from aop.kernel.ports.git import FileMode, GitObjects, TreeChange, TreeEntry

Settings = Mapping[str, Json]
"""The settings of a file that steer tests, by a name that a refusal shows."""

LARGEST_SETTINGS = 1024 * 1024
_TOOLS = ("pytest", "coverage", "tox", "nox", "hatch", "pdm", "poe", "taskipy", "mypy", "ruff", "pylint", "pyright")
_SECTIONS = ("tool:", "pytest", "coverage:", "tox:", "testenv", "flake8", "mypy", "pylint", "options.entry_points")
_FREE_KEYS = frozenset(
    (
        *("name", "version", "description", "keywords", "homepage", "bugs", "license", "author", "contributors"),
        *("funding", "files", "main", "module", "types", "typings", "browser", "bin", "man", "directories", "exports"),
        *("repository", "private", "publishConfig", "sideEffects", "peerDependenciesMeta", "readme"),
    )
)
_RUN_BY_ITSELF = ("test", "install", "prepare", "prepack", "dependencies", "restart", "start", "stop")
_DEPENDENCIES = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


def refuse_test_settings(
    objects: GitObjects, changes: Iterable[TreeChange], territory: GuardedAreas, base: TreeId | None
) -> None:
    """Refuse changes of files that steer tests with some of their settings, if these differ from those of the base.

    Raises: ProtectedPath.
    """
    for change in changes:
        if not territory.holds_test_settings(change.path):
            continue
        before = change.old if base is None else objects.entry(base, change.path)
        name = change.path.rpartition("/")[2].lower()
        changed = changed_settings(name, _content(objects, before), _content(objects, change.new))
        if changed:
            names = list_some([f"`{name}`" for name in changed])
            raise ProtectedPath(
                f"`{change.path}` may not be changed in {names}: {STEERS_TESTS}. The rest of the file is free.",
                path=change.path,
                reason=STEERS_TESTS,
                settings=list(changed),
            )


def changed_settings(name: str, old: bytes, new: bytes) -> tuple[str, ...]:
    """Return the settings that differ between two contents of a file; one that cannot be read differs in all."""
    read = _READERS[name]
    try:
        after = read(new)
    except (MalformedText, ValueError, RecursionError, configparser.Error):
        return ("all of it, which cannot be read as data",)
    try:
        before = read(old)
    except (MalformedText, ValueError, RecursionError, configparser.Error):
        before = {}
    differing = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    return tuple(sorted(name for name in differing if name in before or not _is_new_script(name)))


def _is_new_script(name: str) -> bool:
    """Tell whether a setting is a script of a name that no program runs by itself."""
    script = name.removeprefix("scripts.")
    return script != name and script not in _RUN_BY_ITSELF and not script.startswith(("pre", "post"))


def _content(objects: GitObjects, entry: TreeEntry | None) -> bytes:
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        return b""
    if objects.blob_size(entry.oid) > LARGEST_SETTINGS:
        return b"\0"
    return objects.blob(entry.oid)


def _of_pyproject(content: bytes) -> Settings:
    """Return the tables of test tools, the entry points that pytest loads, and what builds the package."""
    data = tomllib.loads(content.decode())
    tools = data.get("tool", {})
    found = {f"tool.{name}": tools[name] for name in _TOOLS if name in tools}
    plugins = data.get("project", {}).get("entry-points", {}).get("pytest11")
    return {**found, **({"project.entry-points.pytest11": plugins} if plugins else {})}


def _of_setup_cfg(content: bytes) -> Settings:
    """Return the sections of test tools."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(content.decode())
    return {name: dict(parser.items(name)) for name in parser.sections() if name.lower().startswith(_SECTIONS)}


def _of_package_json(content: bytes) -> Settings:
    """Return all keys but those that say nothing about tests; of dependencies, those that are not plain versions."""
    data = parse_json(content) if content.strip() else {}
    if not isinstance(data, dict):
        raise MalformedText("it is not an object")
    found = {name: value for name, value in data.items() if name not in _FREE_KEYS and name not in _DEPENDENCIES}
    scripts = found.pop("scripts", {})
    found |= {f"scripts.{name}": each for name, each in scripts.items()} if isinstance(scripts, dict) else {}
    for group in _DEPENDENCIES:
        wanted = data.get(group, {})
        places = {name: each for name, each in wanted.items() if _is_place(each)} if isinstance(wanted, dict) else {}
        found |= {f"{group}.{name}": each for name, each in places.items()}
    return found


def _is_place(version: Json) -> bool:
    """Tell whether a dependency leads to other code than that of its name: a file, a link, an alias, a repository."""
    return not isinstance(version, str) or ":" in version or "/" in version


_READERS: Mapping[str, Callable[[bytes], Settings]] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup_cfg,
    "package.json": _of_package_json,
}
