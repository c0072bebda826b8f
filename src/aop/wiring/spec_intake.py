"""Spec intake: spec files read, checked together, and put into their place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from aop.adapters.files.specs import named_spec, read_spec, specs_below
from aop.core.errors import InvalidCliArgs, NoSpecsFound, SpecIngestFailed
from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Envelope
from aop.supervisor.specs.dependencies import check_dependencies, dependencies_of
from aop.supervisor.specs.features import WantedFeature, is_written_by_aop, wanted_features
from aop.wiring.build import App


class Intake(Struct, frozen=True, kw_only=True):
    """Specs that fit together; nothing is changed yet."""

    features: tuple[WantedFeature, ...]
    texts: Mapping[FeatureId, str]
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]]


def read_specs(app: App, *, file: str | None, folder: str | None) -> Intake:
    """Read one spec, every spec below a folder, or the specs of the repository.

    Raises: InvalidCliArgs, InputPathNotFound, NoSpecsFound, InvalidFeatureSlug, FeatureSlugCollision, SpecIngestFailed.
    """
    files = _spec_files(app, file, folder)
    if not files:
        raise NoSpecsFound("No spec was found.", searched=folder or "agentic/features/*/spec.md")
    features = wanted_features(files)
    texts = {feature.feature_id: read_spec(files[feature.source]) for feature in features}
    return Intake(features=features, texts=texts, depends_on=_dependencies(app, texts))


def place_specs(app: App, intake: Intake) -> None:
    """Copy every spec to the place of its feature. Raises: SpecIngestFailed."""
    for feature in intake.features:
        if not feature.is_canonical:
            text = intake.texts[feature.feature_id]
            given = {"feature_id": feature.feature_id, "text": text, "source_path": feature.source}
            answer = app.gateway.call(app.person, "feature.ingest_spec", given)
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)


def _spec_files(app: App, file: str | None, folder: str | None) -> Mapping[str, Path]:
    if file is not None:
        return named_spec(Path(file), app.root)
    if folder is not None:
        found = specs_below(Path(folder), app.root)
        return {name: path for name, path in found.items() if not is_written_by_aop(name)}
    specs = _data(app.gateway.call(app.person, "feature.discover_specs", {}))["specs"]
    return {spec["spec_path"]: app.root / spec["spec_path"] for spec in specs}


def _dependencies(app: App, texts: Mapping[FeatureId, str]) -> dict[FeatureId, tuple[FeatureId, ...]]:
    depends_on = {name: dependencies_of(name, text) for name, text in texts.items()}
    if any(depends_on.values()):
        rows = _data(app.gateway.call(app.person, "report.dashboard", {}))["features"]
        check_dependencies(depends_on, frozenset(FeatureId(row["feature_id"]) for row in rows))
    return depends_on


def _data(answer: Envelope) -> Any:
    if answer.error is not None:
        raise InvalidCliArgs(str(answer.error["message"]))
    return answer.data
