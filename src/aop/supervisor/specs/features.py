"""Which features a set of spec files asks for: ids from names, and no two of the same id (AOP-297..308)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from msgspec import Struct

from aop.core.errors import FeatureSlugCollision, InvalidFeatureSlug
from aop.core.ids import FeatureId, feature_id
from aop.kernel.record.projections import FEATURES

SUFFIXES = (".spec", "-spec")


class WantedFeature(Struct, frozen=True, kw_only=True):
    """A feature that somebody wants, and where they wrote it down."""

    feature_id: FeatureId
    source: str
    """The file, from the repository's root if it lies there."""
    is_canonical: bool
    """Whether it lies where features are made from, so that nothing needs to be copied."""


def wanted_features(sources: Iterable[str]) -> tuple[WantedFeature, ...]:
    """Return one feature for each file, in their order.

    Raises: InvalidFeatureSlug, FeatureSlugCollision.
    """
    wanted: dict[FeatureId, WantedFeature] = {}
    for source in sources:
        feature = _wanted(source)
        other = wanted.setdefault(feature.feature_id, feature)
        if other is not feature:
            raise FeatureSlugCollision(
                f"`{other.source}` and `{feature.source}` both ask for the feature `{feature.feature_id}`.",
                feature_id=feature.feature_id,
                paths=[other.source, feature.source],
            )
    return tuple(wanted.values())


def is_canonical(source: str) -> bool:
    """Tell whether a file is `agentic/features/<id>/spec.md`."""
    parts = PurePosixPath(source).parts
    return len(parts) == 4 and "/".join(parts[:2]) == FEATURES and parts[3] == "spec.md"


def is_written_by_aop(source: str) -> bool:
    """Tell whether a Markdown file is one of those that AOP writes beside a spec."""
    return source.startswith(f"{FEATURES}/") and not is_canonical(source)


def _wanted(source: str) -> WantedFeature:
    path = PurePosixPath(source)
    canonical = is_canonical(source)
    name = path.parts[2] if canonical else _slug(path.name)
    try:
        return WantedFeature(feature_id=feature_id(name), source=source, is_canonical=canonical)
    except InvalidFeatureSlug as invalid:
        invalid.facts["path"] = source
        what = "folder" if canonical else "file"
        invalid.next_action = f"The {what}'s name is the id: rename the {what} `{ascii(source)[1:-1]}`. {invalid.hint}"
        raise


def _slug(name: str) -> str:
    stem = name.strip().removesuffix(".md").strip()
    for suffix in SUFFIXES:
        if stem.endswith(suffix):
            return stem.removesuffix(suffix).strip()
    return stem
