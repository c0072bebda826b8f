"""Architecture: packages with what they import, layers, and import cycles."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from aop.core.errors import UnknownPackage
from aop.forge.scan.imports.import_graph import components, edge_places, graph_of, layers_of, shortest_cycle
from aop.forge.scan.imports.import_targets import Imports
from aop.forge.scan.inventory import Inventory, SourceFile
from aop.forge.scan.report import Architecture, Cycle, Module, Package

MOST_CYCLES = 50
_ENTRIES = frozenset(
    "__main__.py main.py manage.py app.py wsgi.py asgi.py main.go main.rs server.js index.js server.ts main.ts".split()
)


def architecture_of(inventory: Inventory, imports: Imports) -> Architecture:
    """Return the map of a commit, whole at the level of packages."""
    own = [source for source in inventory.sources if source.language not in ("sql", "prisma")]
    by_package: dict[str, list[SourceFile]] = {}
    for source in own:
        by_package.setdefault(package_of(source.path), []).append(source)
    package = {source.path: package_of(source.path) for source in own}
    pairs = {(package[edge.file], package[edge.target]) for edge in imports.edges}
    graph = graph_of([*pairs, *((package, package) for package in by_package)])
    layers = layers_of(graph)
    heights = {package: height for height, layer in enumerate(layers) for package in layer}
    return Architecture(
        packages=tuple(_package(each, by_package[each], graph, heights) for each in sorted(by_package)),
        layers=tuple(map(tuple, layers)),
        cycles=tuple(_cycles(own, imports)),
        entry_points=tuple(f"{each.path}:1" for each in own if _is_entry(each)),
    )


def package_of(path: str) -> str:
    """Return the folder of a file; `.` is the root."""
    return path.rpartition("/")[0] or "."


def map_below(architecture: Architecture, path: str = "") -> Architecture:
    """Return the map for a reader: all packages without their files, or those below a path with them.

    The path `.` is the root, with all packages. Raises: UnknownPackage.
    """
    if not path:
        return replace(architecture, packages=tuple(replace(each, modules=()) for each in architecture.packages))
    wanted = posixpath.normpath(path.strip("/"))
    if wanted == ".":
        return architecture
    inside = [each for each in architecture.packages if each.path == wanted or each.path.startswith(f"{wanted}/")]
    if not inside:
        raise UnknownPackage(path, _packages_and_above(architecture))
    names = {each.path for each in inside}
    layers = tuple(kept for layer in architecture.layers if (kept := tuple(each for each in layer if each in names)))
    cycles = tuple(each for each in architecture.cycles if any(step.startswith(f"{wanted}/") for step in each.path))
    return replace(architecture, packages=tuple(inside), layers=layers, cycles=cycles)


def _packages_and_above(architecture: Architecture) -> set[str]:
    """Return the packages and the folders that they lie in."""
    parts = (each.path.split("/") for each in architecture.packages)
    return {"/".join(names[:end]) for names in parts for end in range(1, len(names) + 1)}


def _package(
    path: str, files: Sequence[SourceFile], graph: Mapping[str, Sequence[str]], heights: Mapping[str, int]
) -> Package:
    modules = tuple(
        Module(
            name=posixpath.basename(each.path),
            lines=each.facts.lines,
            functions=each.facts.functions,
            classes=each.facts.classes,
        )
        for each in files
    )
    return Package(
        path=path,
        lines=sum(each.lines for each in modules),
        functions=sum(each.functions for each in modules),
        classes=sum(each.classes for each in modules),
        layer=heights[path],
        imports=tuple(graph[path]),
        modules=modules,
    )


def _cycles(sources: Sequence[SourceFile], imports: Imports) -> list[Cycle]:
    """Return the cycles of files; modules of a Rust crate and files of a Go package may name each other."""
    counted = {each.path for each in sources if each.language not in ("rust", "go")}
    edges = [edge for edge in imports.edges if not edge.late and edge.file in counted]
    graph = graph_of((edge.file, edge.target) for edge in edges)
    places = edge_places(edges)
    found = [component for component in components(graph) if len(component) > 1]
    cycles = []
    for component in sorted(found, key=lambda each: (-len(each), each[0]))[:MOST_CYCLES]:
        way = shortest_cycle(graph, component)
        steps = tuple(
            f"{file}:{places.get((file, following), 0)}"
            for file, following in zip(way, [*way[1:], way[0]], strict=True)
        )
        cycles.append(Cycle(files=len(component), path=steps))
    return cycles


def _is_entry(source: SourceFile) -> bool:
    return not source.is_test and posixpath.basename(source.path) in _ENTRIES
