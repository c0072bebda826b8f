"""Shadowed modules: files that Python would import in place of other modules.

Python looks first in the folder in which a gate starts it, in that of the script that it runs, and on `PYTHONPATH`; so
one file there can take the place of what the test runner imports. A module that the base has there already stays free.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from aop.core.ids import TreeId
from aop.core.paths.names import fold_path
from aop.kernel.ports.git import FileMode, GitObjects

SHADOWS_MODULE = "Python would import it in place of a module of its own or of an installed package"
LARGEST_LIST = 256 * 1024
_ENDINGS = (".py", ".pyc", ".so")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_OF_RUNNERS = ("packaging", "pygments", "exceptiongroup", "tomli", "colorama", "execnet", "coverage", "hypothesis")
"""Packages that pytest and its usual plugins import, which few projects name."""
_FREE = ("test", "tests")
"""Python has a package `test`, which no runner imports; in a project it is the folder of tests."""
PYTHONS_OWN = frozenset(map(str.lower, (*sys.stdlib_module_names, *_OF_RUNNERS))).difference(_FREE)


class ShadowGuard(Struct, frozen=True, kw_only=True):
    """The places in which a module would be imported first; all in folded letters."""

    folders: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Modules that are no project's own."""
    existing: frozenset[tuple[str, str]] = frozenset()
    """The folders and names of modules that the base has."""
    has_links: bool = False
    """Whether a patch may make links: one to a package has its name, and no ending."""

    def covers(self, path: str) -> bool:
        """Tell whether a folded path would be imported in place of another module, or takes the place of a folder."""
        folder, name = _module_at(path)
        name = name or (path.rpartition("/")[2] if self.has_links else "")
        is_module = folder in self.folders and name in self.names and (folder, name) not in self.existing
        return is_module or path in self.folders


NO_SHADOWS = ShadowGuard()


def shadow_guard(objects: GitObjects, base: TreeId, folders: Iterable[str], *, has_links: bool) -> ShadowGuard:
    """Return the guard of these folders, of the root, and of those that the base's settings of pytest name."""
    project = _project(objects, base)
    first = frozenset(map(fold_path, ("", *folders, *_python_path(project))))
    wanted = {_normal(name) for name in (*_requirements(project), *_requirement_files(objects, base))}
    names = PYTHONS_OWN | (wanted - {_normal(str(_table(project, "project").get("name")))})
    present = frozenset((folder, name) for folder in first for name in _modules(objects, base, folder) if name in names)
    return ShadowGuard(folders=first, names=names, existing=present, has_links=has_links)


def _module_at(path: str) -> tuple[str, str]:
    """Return the folder and the name under which Python finds a file; no name if it is no module."""
    folder, _, file = path.rpartition("/")
    if not file.endswith(_ENDINGS):
        return folder, ""
    name = file.partition(".")[0] if file.endswith(".so") else file.rpartition(".")[0]
    if name == "__init__":
        folder, _, name = folder.rpartition("/")
    return folder, name


def _modules(objects: GitObjects, base: TreeId, folder: str) -> Iterator[str]:
    """Yield the modules that a folder of the base has; a folder is one if it has an `__init__.py`."""
    for name in objects.names(base, folder):
        place = f"{folder}/{name}".lstrip("/")
        has_init = not name.endswith(_ENDINGS) and objects.entry(base, f"{place}/__init__.py") is not None
        yield fold_path(name) if has_init else _module_at(fold_path(name))[1]


def _project(objects: GitObjects, base: TreeId) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(objects, base, "pyproject.toml"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _python_path(project: dict[str, Any]) -> Sequence[str]:
    options = _table(_table(_table(project, "tool"), "pytest"), "ini_options")
    found = options.get("pythonpath", [])
    listed = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
    return [str(folder).removeprefix("./").rstrip("/") for folder in listed if str(folder) not in (".", "./")]


def _requirements(project: dict[str, Any]) -> Iterator[str]:
    own = _table(project, "project")
    groups = [own.get("dependencies"), *_table(own, "optional-dependencies").values()]
    for group in [*groups, *_table(project, "dependency-groups").values()]:
        yield from _names(each for each in group if isinstance(each, str)) if isinstance(group, list) else ()
    poetry = _table(_table(project, "tool"), "poetry")
    for part in (poetry, *(_table(_table(poetry, "group"), name) for name in _table(poetry, "group"))):
        yield from _table(part, "dependencies")


def _requirement_files(objects: GitObjects, base: TreeId) -> Iterator[str]:
    for name in objects.names(base, ""):
        if name.startswith("requirements") and name.endswith(".txt"):
            yield from _names(_text(objects, base, name).splitlines())


def _names(lines: Iterable[str]) -> Iterator[str]:
    yield from (found[1] for line in lines if (found := _REQUIREMENT.match(line)))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _text(objects: GitObjects, base: TreeId, path: str) -> str:
    entry = objects.entry(base, path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        return ""
    return objects.blob(entry.oid).decode(errors="replace") if objects.blob_size(entry.oid) <= LARGEST_LIST else ""
