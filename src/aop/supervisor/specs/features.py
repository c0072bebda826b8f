"""Features of spec files: ids from file names, each id once (AOP-297..308)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from aop.core.errors import FeatureMerged, FeatureSlugCollision, InvalidFeatureSlug
from aop.core.ids import FeatureId, feature_id
from aop.kernel.features.endings import FeatureEnding
from aop.kernel.record.projections import FEATURES

SUFFIXES = (".spec", "-spec")


class WantedFeature(Struct, frozen=True, kw_only=True):
    """A feature and its spec file."""

    feature_id: FeatureId
    source: str
    """The file, relative to the repository's root if it is inside."""
    is_canonical: bool
    """Whether it is already in its place, so that no copy is needed."""


def wanted_features(sources: Iterable[str]) -> tuple[WantedFeature, ...]:
    """Return one feature for each file, in their order. Raises: InvalidFeatureSlug, FeatureSlugCollision."""
    wanted: dict[FeatureId, WantedFeature] = {}
    for source in sources:
        feature = _wanted(source)
        other = wanted.setdefault(feature.feature_id, feature)
        if other is not feature:
            raise FeatureSlugCollision(
                f"`{other.source}` and `{feature.source}` both define the feature `{feature.feature_id}`.",
                feature_id=feature.feature_id,
                paths=[other.source, feature.source],
            )
    return tuple(wanted.values())


def refuse_merged(endings: Mapping[FeatureId, FeatureEnding]) -> None:
    """Refuse to run the spec of a merged feature. Raises: FeatureMerged."""
    for name, ending in endings.items():
        if ending is FeatureEnding.MERGED:
            raise FeatureMerged(f"The feature `{name}` is already merged.", feature_id=name)


def is_canonical(source: str) -> bool:
    """Tell whether a file is `agentic/features/<id>/spec.md`."""
    parts = PurePosixPath(source).parts
    return len(parts) == 4 and "/".join(parts[:2]) == FEATURES and parts[3] == "spec.md"


def is_written_by_aop(source: str) -> bool:
    """Tell whether AOP wrote a Markdown file beside a spec."""
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
