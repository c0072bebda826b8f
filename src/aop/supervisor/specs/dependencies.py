"""Dependencies: the features in a spec's `depends_on`, without cycles."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from aop.core.errors import SpecIngestFailed
from aop.core.ids import FeatureId


def check_dependencies(wanted: Mapping[FeatureId, tuple[FeatureId, ...]], known: frozenset[FeatureId]) -> None:
    """Refuse unknown dependencies and cycles. Raises: SpecIngestFailed."""
    for name, others in wanted.items():
        for other in others:
            if other not in wanted and other not in known:
                raise SpecIngestFailed(
                    f"The spec `{name}` depends on `{other}`, which is not a known spec or feature.",
                    hint="Add the spec of that feature, or remove it from `depends_on`.",
                    feature_id=name,
                )
    circle = _circle(wanted)
    if circle:
        shown = " -> ".join(f"`{each}`" for each in circle)
        raise SpecIngestFailed(
            f"These specs depend on each other in a cycle: {shown}.",
            hint="Remove one of them from `depends_on`.",
            circle=list(circle),
        )


def _circle(wanted: Mapping[FeatureId, tuple[FeatureId, ...]]) -> tuple[FeatureId, ...]:
    """Return a cycle of features, beginning with the first by name; empty if there is none."""
    try:
        TopologicalSorter(wanted).prepare()
    except CycleError as error:
        # graphlib lists dependencies before dependents, with the first feature at both ends.
        around = list(reversed(error.args[1]))[1:]
        first = around.index(min(around))
        return (*around[first:], *around[: first + 1])
    return ()
