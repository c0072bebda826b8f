"""Dependencies: the features in a spec's `depends_on`, without cycles."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from aop.core.errors import InvalidFeatureSlug, SpecIngestFailed
from aop.core.ids import FeatureId, feature_id
from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import MalformedText
from aop.core.text.yaml import parse_yaml


def dependencies_of(name: FeatureId, text: str) -> tuple[FeatureId, ...]:
    """Return the features that a spec depends on. Raises: SpecIngestFailed."""
    if not text.startswith("---\n"):
        return ()
    try:
        front = parse_yaml(split_front_matter(text.encode())[0]).value
    except MalformedText as error:
        raise SpecIngestFailed(f"The front matter of the spec `{name}` is invalid: {error}.") from error
    named = front.get("depends_on", []) if isinstance(front, Mapping) else []
    words = [named] if isinstance(named, str) else named
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}` must be a list of feature ids.", feature_id=name)
    try:
        return tuple(feature_id(str(word)) for word in words)
    except InvalidFeatureSlug as invalid:
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}`: {invalid.message}", feature_id=name) from invalid


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
