"""Tools `feature.discover_specs` and `feature.ingest_spec`."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Refusal, SpecIngestFailed
from aop.core.ids import feature_id
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.features.specs import LARGEST_SPEC, share_spec, spec_path, spec_text
from aop.kernel.gateway.calls import Arguments, Call, ChangeArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS, READERS
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.specs import IngestedSpec, SpecSource
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.projections import FEATURES

MOST_FOLDERS = 10_000


class FoundSpec(Struct, frozen=True, kw_only=True):
    feature_id: str
    spec_path: str
    """Its path, from the repository's root."""


class UnusableSpec(Struct, frozen=True, kw_only=True):
    """A spec from which no feature can be made."""

    spec_path: str
    """Its path; characters that are not ASCII are escaped."""
    code: str
    """The refusal code."""
    message: str
    """The reason, as a sentence."""


class Specs(Struct, frozen=True, kw_only=True):
    specs: tuple[FoundSpec, ...]
    """By feature id."""
    unusable: tuple[UnusableSpec, ...]
    """The specs that a person should rename or repair."""


def discover_specs(call: Call, _arguments: Arguments) -> Outcome:
    """Return all specs of the checkout, as `feature.get_context` would read them; no link is followed."""
    specs: list[FoundSpec] = []
    unusable: list[UnusableSpec] = []
    for name in call.kernel.files.folders(FEATURES, limit=MOST_FOLDERS):
        if not call.principal.reaches(name):
            continue
        path = spec_path(name)
        try:
            if spec_text(call.kernel, name) is not None:
                specs.append(FoundSpec(feature_id=feature_id(name), spec_path=path))
        except Refusal as refusal:
            unusable.append(UnusableSpec(spec_path=_escape(path), code=refusal.code, message=_escape(refusal.message)))
    return Specs(specs=tuple(specs), unusable=tuple(unusable))


def _escape(text: str) -> str:
    # A name on disk may hold bytes that are not UTF-8, and an answer cannot.
    return text.encode("ascii", "backslashreplace").decode("ascii")


class IngestSpec(ChangeArguments, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1)]
    """The whole spec."""
    source_path: Annotated[str, Meta(min_length=1, max_length=4096)]
    """Its path from the repository's root if it is inside, else only its name."""


class IngestResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    spec_path: str
    """The path of the stored spec."""
    source: SpecSource
    changed: bool
    """False when exactly this text was already stored."""


def ingest_spec(call: Call, arguments: IngestSpec) -> Outcome:
    """Store a spec; another text at its path is set aside, never overwritten."""
    kernel, name = call.kernel, feature_id(arguments.feature_id)
    data = arguments.text.encode()
    path = spec_path(name)
    if len(data) > LARGEST_SPEC:
        raise SpecIngestFailed(f"The spec of `{name}` has more than {LARGEST_SPEC} bytes.", feature_id=name)
    source = SpecSource(source_path=arguments.source_path, sha256=hashlib.sha256(data).hexdigest())
    with kernel.record.read() as view:
        _existing_feature(view, arguments)
    with kernel.locks.files():
        present = kernel.files.fingerprint(path)
        if present is not None and present != source.sha256:
            kernel.files.set_aside(path)
        if present != source.sha256:
            kernel.files.write(path, data)

    def decide(tx: Transaction) -> Outcome:
        share_spec(tx, kernel, name)
        known = tx.get(IngestedSpec, name)
        if known is None or known.source != source:
            tx.put(IngestedSpec(version=next_version(known), feature_id=name, source=source), name)
            tx.append(call.event("spec_ingested", name, **msgspec.to_builtins(source)))
            state = _existing_feature(tx, arguments)
            if state is not None:
                store_feature(tx, state, msgspec.structs.replace(state, spec=source), now=kernel.now())
        return IngestResult(feature_id=name, spec_path=path, source=source, changed=present != source.sha256)

    return call.commit(decide)


def _existing_feature(view: Snapshot, arguments: IngestSpec) -> FeatureState | None:
    """Return the feature, if it exists, at the version that the arguments expect."""
    is_made = view.get(FeatureState, arguments.feature_id) is not None
    return the_feature(view, arguments) if is_made or arguments.expected_version is not None else None


TOOLS = (
    Tool(
        name="feature.discover_specs",
        summary="List the specs `agentic/features/*/spec.md` of the checkout, and those that cannot be used.",
        arguments=Arguments,
        output=Specs,
        roles=READERS,
        run=discover_specs,
    ),
    Tool(
        name="feature.ingest_spec",
        summary="Store the text of a spec in the feature's folder, and note its source.",
        arguments=IngestSpec,
        output=IngestResult,
        roles=COORDINATORS,
        run=ingest_spec,
        mutates=True,
    ),
)
