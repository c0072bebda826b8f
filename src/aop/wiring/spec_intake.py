"""Spec intake: specs read or written, checked together, and put into their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from aop.adapters.files.specs import named_spec, read_spec, specs_below
from aop.core.errors import FeatureSlugCollision, InvalidCliArgs, NoSpecsFound, SecretDetected, SpecIngestFailed
from aop.core.ids import FeatureId, feature_id
from aop.core.text.visible import deception_in
from aop.kernel.features.endings import FeatureEnding, ending_of
from aop.kernel.features.specs import dependencies_of, spec_path
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.features import FeatureState
from aop.supervisor.specs.dependencies import check_dependencies
from aop.supervisor.specs.features import WantedFeature, is_written_by_aop, refuse_merged, wanted_features
from aop.supervisor.specs.slugs import unused_id


class IntakeDesk(Protocol):
    """A person at an open repository: the command line has one, and so have the pages."""

    @property
    def gateway(self) -> Gateway:
        """Return the gateway."""

    @property
    def person(self) -> Principal:
        """Return the person."""

    @property
    def root(self) -> Path:
        """Return the root of the repository."""


class Intake(Struct, frozen=True, kw_only=True):
    """Specs that fit together; nothing is changed yet."""

    features: tuple[WantedFeature, ...]
    texts: Mapping[FeatureId, str]
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]]
    skipped: Mapping[FeatureId, FeatureEnding] = {}
    """Specs of the folder whose features have ended: they are not run again."""

    def warnings(self) -> Iterator[str]:
        """Yield what a person should know of a spec before an agent gets it."""
        for name, text in self.texts.items():
            if deception := deception_in(enumerate(text.split("\n"), start=1)):
                yield f"The spec of `{name}` has {deception}. Read it before an agent does."


def read_specs(app: IntakeDesk, *, file: str | None, folder: str | None) -> Intake:
    """Read one spec, every spec below a folder, or the specs of the repository.

    Raises: InvalidCliArgs, InputPathNotFound, NoSpecsFound, InvalidFeatureSlug, FeatureSlugCollision, SpecIngestFailed.
    """
    files = _spec_files(app, file, folder)
    if not files:
        raise NoSpecsFound("No spec was found.", searched=folder or "agentic/features/*/spec.md")
    found = wanted_features(files)
    skipped = _ended(app, found)
    if file is not None:
        refuse_merged(skipped)
        skipped = {}
    features = tuple(feature for feature in found if feature.feature_id not in skipped)
    if not features:
        ended = ", ".join(f"`{name}` is {ending}" for name, ending in skipped.items())
        raise NoSpecsFound(f"No spec is left to run: {ended}.", hint="Name a spec that is to be run: --file SPEC")
    texts = {feature.feature_id: read_spec(files[feature.source]) for feature in features}
    return Intake(features=features, texts=texts, depends_on=_dependencies(app, texts), skipped=skipped)


def written_spec(app: IntakeDesk, text: str, *, source: str, name: str | None = None) -> Intake:
    """Take a person's text as the spec of a new feature, under a name or an id made from its words.

    Raises: InvalidCliArgs, SecretDetected, InvalidFeatureSlug, FeatureSlugCollision.
    """
    if not text.strip():
        raise InvalidCliArgs("The text is empty.", hint="Describe the feature in a sentence.")
    rules = sorted({finding.rule for finding in app.gateway.kernel.redact.secrets_in(text)})
    if rules:
        raise SecretDetected(f"The text contains what looks like a secret ({', '.join(rules)}).", rules=rules)
    if name is None:
        chosen = unused_id(text, lambda each: _is_taken(app, each))
    else:
        chosen = feature_id(name)
        refuse_taken(app, chosen)
    feature = WantedFeature(feature_id=chosen, source=source, is_canonical=False)
    texts = {chosen: f"{text.strip()}\n"}
    return Intake(features=(feature,), texts=texts, depends_on=_dependencies(app, texts))


def refuse_taken(app: IntakeDesk, name: FeatureId) -> None:
    """Refuse the name of a known feature, of a spec or of a branch. Raises: FeatureSlugCollision."""
    if _is_taken(app, name):
        raise FeatureSlugCollision(
            f"`{name}` is already the name of a feature, a spec or a branch.",
            hint="Choose another name, or see `aop status`.",
            feature_id=name,
        )


def _is_taken(app: IntakeDesk, name: str) -> bool:
    kernel = app.gateway.kernel
    with kernel.record.read() as view:
        is_known = view.get(FeatureState, name) is not None
    is_written = kernel.files.fingerprint(spec_path(name)) is not None
    return is_known or is_written or kernel.git.branches.head(name) is not None


def place_specs(app: IntakeDesk, intake: Intake, *, operation_id: str | None = None) -> None:
    """Copy every spec to the place of its feature; a deleted feature starts anew. Raises: SpecIngestFailed.

    A spec of one feature under the same operation id is placed once.
    """
    deleted = _ended(app, intake.features)
    for feature in intake.features:
        if not feature.is_canonical:
            text = intake.texts[feature.feature_id]
            given = {"feature_id": feature.feature_id, "text": text, "source_path": feature.source}
            answer = app.gateway.call(app.person, "feature.ingest_spec", given, operation_id=operation_id)
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)
        if feature.feature_id in deleted:
            answer = app.gateway.call(app.person, "feature.init", {"feature_id": feature.feature_id})
            if answer.error is not None:
                raise SpecIngestFailed(str(answer.error["message"]), feature_id=feature.feature_id)


def _ended(app: IntakeDesk, features: Sequence[WantedFeature]) -> dict[FeatureId, FeatureEnding]:
    with app.gateway.kernel.record.read() as view:
        endings = {feature.feature_id: ending_of(view, feature.feature_id) for feature in features}
    return {name: ending for name, ending in endings.items() if ending is not None}


def _spec_files(app: IntakeDesk, file: str | None, folder: str | None) -> Mapping[str, Path]:
    if file is not None:
        return named_spec(Path(file), app.root)
    if folder is not None:
        found = specs_below(Path(folder), app.root)
        return {name: path for name, path in found.items() if not is_written_by_aop(name)}
    specs = _data(app.gateway.call(app.person, "feature.discover_specs", {}))["specs"]
    return {spec["spec_path"]: app.root / spec["spec_path"] for spec in specs}


def _dependencies(app: IntakeDesk, texts: Mapping[FeatureId, str]) -> dict[FeatureId, tuple[FeatureId, ...]]:
    depends_on = {name: dependencies_of(name, text) for name, text in texts.items()}
    if any(depends_on.values()):
        rows = _data(app.gateway.call(app.person, "report.dashboard", {}))["features"]
        check_dependencies(depends_on, frozenset(FeatureId(row["feature_id"]) for row in rows))
    return depends_on


def _data(answer: Envelope) -> Any:
    if answer.error is not None:
        raise InvalidCliArgs(str(answer.error["message"]))
    return answer.data
