"""Spec documents: where the text of a feature's spec came from."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import Document


class SpecSource(Struct, frozen=True, kw_only=True):
    """The source of a spec (AOP-307)."""

    source_path: Annotated[str, Meta(min_length=1)]
    """From the repository's root where it lies there, else only its name."""
    sha256: Annotated[str, Meta(min_length=1)]
    """Of the text that was taken."""


class SpecText(Document, frozen=True, kw_only=True):
    """The text of a spec without secrets, for machines whose disk does not have it."""

    kind: ClassVar[str] = "spec_text"

    feature_id: FeatureId
    text: str


class IngestedSpec(Document, frozen=True, kw_only=True):
    """A spec that `aop run` put in its place; a feature that is made of it names it."""

    kind: ClassVar[str] = "spec"

    feature_id: FeatureId
    source: SpecSource
