"""Cycles and layers of an import graph, also of one that is deeper than Python's stack."""

from __future__ import annotations

from itertools import pairwise

from aop.forge.scan.imports.import_graph import components, graph_of, layers_of, shortest_cycle


def test_components_come_before_what_leads_to_them() -> None:
    graph = graph_of([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")])
    assert components(graph) == [["d"], ["b", "c"], ["a"]]
    assert layers_of(graph) == [["d"], ["b", "c"], ["a"]]


def test_the_shortest_way_round_is_shown() -> None:
    graph = graph_of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "a")])
    assert shortest_cycle(graph, ["a", "b", "c", "d"]) == ["a", "b"]


def test_a_chain_of_a_hundred_thousand_files_needs_no_stack() -> None:
    names = [f"{number:06}" for number in range(100_000)]
    graph = graph_of(pairwise(names))
    assert [layer[0] for layer in layers_of(graph)] == names[::-1]
    ring = graph_of([*pairwise(names), (names[-1], names[0])])
    assert components(ring) == [names]
