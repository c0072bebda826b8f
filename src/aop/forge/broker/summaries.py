"""Summaries: the layers, the rules between them, and one line for each contract."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from aop.forge.contracts.shapes.boundaries import read_boundaries
from aop.forge.contracts.shapes.problems import Problems

LONGEST_LINE = 120


class LayerBrief(Struct, frozen=True, kw_only=True):
    """A layer of the boundaries contract."""

    name: str
    """Its name."""
    glob: str
    """The files that belong to it."""


class BoundarySummary(Struct, frozen=True, kw_only=True):
    """The layers and what each must not do."""

    layers: tuple[LayerBrief, ...]
    invariants: tuple[str, ...]


def boundary_summary(text: str) -> BoundarySummary:
    """Return the layers and their rules; nothing for a text that cannot be read."""
    layers = read_boundaries(text, Problems()).layers
    return BoundarySummary(
        layers=tuple(LayerBrief(name=each.name, glob=each.glob) for each in layers),
        invariants=tuple(_line(f"{each.name}: {rule.reason}") for each in layers for rule in each.forbidden),
    )


def brief_of(content: str) -> str:
    """Return the first line of a contract that says something, as its brief."""
    return next(_plain_lines(content), "")


def _plain_lines(content: str) -> Iterator[str]:
    for raw in content.splitlines():
        line = raw.strip().strip("{}[],")
        if line and not line.startswith(("#", "```", "---", "<!--", "|")):
            yield _line(line)


def _line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_LINE else flat[: LONGEST_LINE - 3] + "..."
