"""Takes specs in, for the commands that do: which features they ask for, and each of them in its place."""

from __future__ import annotations

import argparse
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
    """Specs that were read and fit together; nothing is changed yet."""

    features: tuple[WantedFeature, ...]
    texts: Mapping[FeatureId, str]
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]]


def spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what every command takes that takes specs."""
    parser.add_argument("-fi", metavar="FILE", help="one spec")
    parser.add_argument("-fl", metavar="FOLDER", help="every `*.md` below a folder is a spec")


def read_specs(app: App, arguments: argparse.Namespace) -> Intake:
    """Read the specs that a person names.

    Raises: InvalidCliArgs, InputPathNotFound, NoSpecsFound, InvalidFeatureSlug, FeatureSlugCollision, SpecIngestFailed.
    """
    files = _files(app, arguments)
    features = wanted_features(files)
    texts = {feature.feature_id: read_spec(files[feature.source]) for feature in features}
    return Intake(features=features, texts=texts, depends_on=_dependencies(app, texts))


def place_specs(app: App, intake: Intake) -> None:
    """Put every spec where its feature is made from.

    Raises: SpecIngestFailed.
    """
    for feature in intake.features:
        if not feature.is_canonical:
            text = intake.texts[feature.feature_id]
            given = {"feature_id": feature.feature_id, "text": text, "source_path": feature.source}
            answer = app.gateway.call(app.person, "feature.ingest_spec", given)
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)


def _files(app: App, arguments: argparse.Namespace) -> Mapping[str, Path]:
    if arguments.fi is not None and arguments.fl is not None:
        raise InvalidCliArgs("`-fi` and `-fl` cannot be used together.", hint="Name one file, or one folder.")
    found = _found(app, arguments)
    if not found:
        raise NoSpecsFound("There is no spec to work on.", searched=arguments.fl or "agentic/features/*/spec.md")
    return found


def _found(app: App, arguments: argparse.Namespace) -> Mapping[str, Path]:
    if arguments.fi is not None:
        return named_spec(Path(arguments.fi), app.root)
    if arguments.fl is not None:
        found = specs_below(Path(arguments.fl), app.root)
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
