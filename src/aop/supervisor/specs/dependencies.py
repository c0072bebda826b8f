"""Which features a spec says must be merged before it: `depends_on` in its front matter; never in a circle."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from aop.core.errors import InvalidFeatureSlug, SpecIngestFailed
from aop.core.ids import FeatureId, feature_id
from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import MalformedText
from aop.core.text.yaml import parse_yaml


def dependencies_of(name: FeatureId, text: str) -> tuple[FeatureId, ...]:
    """Return what a spec depends on.

    Raises: SpecIngestFailed.
    """
    if not text.startswith("---\n"):
        return ()
    try:
        front = parse_yaml(split_front_matter(text.encode())[0]).value
    except MalformedText as error:
        raise SpecIngestFailed(f"The front matter of the spec `{name}` cannot be read: {error}.") from error
    named = front.get("depends_on", []) if isinstance(front, Mapping) else []
    words = [named] if isinstance(named, str) else named
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}` is not a list of features.", feature_id=name)
    try:
        return tuple(feature_id(str(word)) for word in words)
    except InvalidFeatureSlug as invalid:
        raise SpecIngestFailed(f"`depends_on` of the spec `{name}`: {invalid.message}", feature_id=name) from invalid


def check_dependencies(wanted: Mapping[FeatureId, tuple[FeatureId, ...]], known: frozenset[FeatureId]) -> None:
    """Refuse a dependency on something that nobody asked for, and features that wait for each other in a circle.

    Raises: SpecIngestFailed.
    """
    for name, others in wanted.items():
        for other in others:
            if other not in wanted and other not in known:
                raise SpecIngestFailed(
                    f"The spec `{name}` depends on `{other}`, and there is no such spec or feature.",
                    hint="Give the spec of that feature as well, or take it out of `depends_on`.",
                    feature_id=name,
                )
    circle = _circle(wanted)
    if circle:
        shown = " -> ".join(f"`{each}`" for each in circle)
        raise SpecIngestFailed(
            f"These specs depend on each other in a circle: {shown}.",
            hint="Take one of them out of `depends_on`.",
            circle=list(circle),
        )


def _circle(wanted: Mapping[FeatureId, tuple[FeatureId, ...]]) -> tuple[FeatureId, ...]:
    """Return features of which each depends on the next, from the one that comes first by name; empty if none do."""
    try:
        TopologicalSorter(wanted).prepare()
    except CycleError as error:
        # Told from what is needed to who needs it, and with its beginning at both ends.
        around = list(reversed(error.args[1]))[1:]
        first = around.index(min(around))
        return (*around[first:], *around[: first + 1])
    return ()
