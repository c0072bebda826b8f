"""Routes and tables of a commit, with prefixes that other files give to them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from aop.core.paths.globs import matches
from aop.forge.scan.file_facts import UNKNOWN, ImportFact, MountFact, path_below
from aop.forge.scan.imports.import_targets import ImportEdge, Imports, TargetFinder
from aop.forge.scan.inventory import Inventory, SourceFile

DEEPEST_MOUNT = 6


class FoundRoute(Struct, frozen=True, kw_only=True, gc=False):
    """An HTTP route."""

    method: str
    path: str
    framework: str
    file: str
    line: int
    complete: bool = True
    """False where another file may put it under a prefix that was not found."""


class FoundTable(Struct, frozen=True, kw_only=True, gc=False):
    """A table of a database."""

    name: str
    columns: tuple[str, ...]
    source: str
    file: str
    line: int


def routes_of(inventory: Inventory, targets: TargetFinder | None = None) -> tuple[FoundRoute, ...]:
    """Return all routes, sorted by path and method; `targets` if the files behind imports are known already."""
    if not any(source.facts.routes for source in inventory.sources):
        return ()
    finder = PrefixFinder(inventory, targets)
    found = {
        FoundRoute(
            method=fact.method,
            path=path_below(prefix, fact.path),
            framework=fact.framework,
            file=source.path,
            line=fact.line,
            complete=complete and UNKNOWN not in (prefix, fact.path),
        ): None
        for source in inventory.sources
        if not source.is_test
        for fact in source.facts.routes
        for prefix, complete in finder.prefixes(source.path, fact.router)
    }
    return tuple(sorted(found, key=lambda each: (each.path, each.method, each.file, each.line)))


def tables_of(inventory: Inventory) -> tuple[FoundTable, ...]:
    """Return all tables, sorted by name; one that two files define is there twice."""
    found = [
        FoundTable(
            name=fact.name or _django_name(source.path, fact.model),
            columns=fact.columns,
            source=fact.source,
            file=source.path,
            line=fact.line,
        )
        for source in inventory.sources
        if not source.is_test
        for fact in source.facts.tables
    ]
    return tuple(sorted(found, key=lambda each: (each.name, each.file, each.line)))


def imports_between(imports: Imports, importing: str, imported: str) -> Iterator[ImportEdge]:
    """Return the imports of files that match one glob by files that match another."""
    return (edge for edge in imports.edges if matches(importing, edge.file) and matches(imported, edge.target))


class PrefixFinder:
    """Follows the mounts of routers from file to file."""

    def __init__(self, inventory: Inventory, targets: TargetFinder | None = None) -> None:
        self._inventory = inventory
        self._targets = targets
        self._mounts: dict[tuple[str, str], list[tuple[str, MountFact]]] = {}
        self._routers = {(source.path, each.router) for source in inventory.sources for each in source.facts.routes}
        self._routers |= {(source.path, each.owner) for source in inventory.sources for each in source.facts.mounts}
        self._is_application = {
            source.path for source in inventory.sources if any(not route.router for route in source.facts.routes)
        }
        for source in inventory.sources:
            for mount in source.facts.mounts:
                for file, router in self.mounted(source, mount):
                    self._mounts.setdefault((file, router), []).append((source.path, mount))

    @cached_property
    def targets(self) -> TargetFinder:
        """The files behind imports, looked for only where something is mounted or taken from a framework."""
        return self._targets or TargetFinder(self._inventory)

    def prefixes(self, file: str, router: str) -> list[tuple[str, bool]]:
        """Return each prefix of a router, and whether all of it is known."""
        if not router:
            return [("", True)]
        found: list[tuple[str, bool]] = []
        waiting = [(file, router, "", 0)]
        while waiting:
            place, name, prefix, depth = waiting.pop()
            mounts = self._mounts.get((place, name)) or self._mounts.get((place, "*")) or []
            if not mounts or depth >= DEEPEST_MOUNT:
                # Django's first file of routes belongs to nobody; any other router has to be mounted somewhere.
                found.append((prefix, name == "urlpatterns" or depth > 0))
            for above, mount in mounts if depth < DEEPEST_MOUNT else ():
                joined = path_below(mount.prefix, prefix)
                if mount.owner:
                    waiting.append((above, mount.owner, joined, depth + 1))
                else:
                    found.append((joined, True))
        return list(dict.fromkeys(found))

    def has_routes(self, file: str, router: str) -> bool:
        """Tell whether a router of a file has routes, its own or those of another."""
        return (file, router) in self._routers

    def mounted(self, source: SourceFile, mount: MountFact) -> Iterator[tuple[str, str]]:
        """Yield the file and the name of the router that a mount is about."""
        if mount.owner == "urlpatterns" or mount.target.startswith(("./", "../")):
            router = mount.owner if mount.owner == "urlpatterns" else "*"
            files = self.targets.targets(source, ImportFact(mount.line, mount.target))
            yield from ((file, router) for file in files)
        else:
            imported = list(self._imported(source, mount.target))
            yield from imported or [(source.path, mount.target)]

    def _imported(self, source: SourceFile, target: str) -> Iterator[tuple[str, str]]:
        """Yield the file and the name of a router that the file imports."""
        first, _, rest = target.partition(".")
        for fact in source.facts.imports:
            for name in fact.names:
                original, _, alias = name.partition(" as ")
                if first == (alias or original):
                    router = rest or (original if source.language == "python" else "*")
                    files = self.targets.targets(source, ImportFact(fact.line, fact.target, (original,)))
                    yield from ((file, router) for file in files)


def _django_name(path: str, model: str) -> str:
    """Return the table that Django gives to a model: its app and its name."""
    folder = posixpath.dirname(path)
    if posixpath.basename(folder) == "models":
        folder = posixpath.dirname(folder)
    app = posixpath.basename(folder)
    return f"{app}_{model.lower()}" if app else model.lower()
