"""Import graph: its cycles and its layers, without a function that calls itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from aop.forge.scan.imports.import_targets import ImportEdge


def graph_of(edges: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the neighbours of each node, sorted, without loops to itself."""
    graph: dict[str, dict[str, None]] = {}
    for start, end in sorted(set(edges)):
        graph.setdefault(start, {})
        graph.setdefault(end, {})
        if start != end:
            graph[start][end] = None
    return {node: list(ends) for node, ends in graph.items()}


def components(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components, each before those that lead to it (Tarjan)."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    held: dict[str, None] = {}
    for start in graph:
        if start in order:
            continue
        work: list[tuple[str, Iterator[str]]] = [(start, iter(graph[start]))]
        order[start] = lowest[start] = len(order)
        held[start] = None
        while work:
            node, ends = work[-1]
            end = next((each for each in ends if each not in order or each in held), None)
            if end is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    found.append(_take(held, node))
            elif end in order:
                lowest[node] = min(lowest[node], order[end])
            else:
                order[end] = lowest[end] = len(order)
                held[end] = None
                work.append((end, iter(graph[end])))
    return found


def _take(held: dict[str, None], root: str) -> list[str]:
    """Take a component from what is held: all that came after its root."""
    component: list[str] = []
    while True:
        node, _ = held.popitem()
        component.append(node)
        if node == root:
            return sorted(component)


def shortest_cycle(graph: Mapping[str, Sequence[str]], component: Sequence[str]) -> list[str]:
    """Return the files of one shortest way round from the first of a component, back to itself."""
    start, inside = component[0], set(component)
    came_from: dict[str, str] = {}
    level = [start]
    while level:
        following: list[str] = []
        for node in level:
            for end in graph[node]:
                if end == start:
                    way = [node]
                    while way[-1] != start:
                        way.append(came_from[way[-1]])
                    return way[::-1]
                if end in inside and end not in came_from:
                    came_from[end] = node
                    following.append(end)
        level = following
    return list(component)


def layers_of(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the nodes in layers: the lowest imports none, each other one something of the layer below it."""
    heights: dict[str, int] = {}
    for component in components(graph):
        inside = set(component)
        below = [heights[end] for node in component for end in graph[node] if end not in inside]
        heights |= dict.fromkeys(component, max(below, default=-1) + 1)
    layers: list[list[str]] = [[] for _ in range(max(heights.values(), default=-1) + 1)]
    for node in sorted(heights):
        layers[heights[node]].append(node)
    return layers


def edge_places(edges: Iterable[ImportEdge]) -> dict[tuple[str, str], int]:
    """Return the line of the first import of one file by another."""
    places: dict[tuple[str, str], int] = {}
    for edge in edges:
        places.setdefault((edge.file, edge.target), edge.line)
    return places
