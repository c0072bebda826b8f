"""What the record keeps of a spec that was put in its place."""

from __future__ import annotations

from typing import ClassVar

from aop.core.ids import FeatureId
from aop.kernel.documents import Document
from aop.kernel.spec_sources import SpecSource


class IngestedSpec(Document, frozen=True, kw_only=True):
    """A spec that `aop run` put in its place; a feature that is made of it names it."""

    kind: ClassVar[str] = "spec"

    feature_id: FeatureId
    source: SpecSource
