"""Feature review: what a reviewer of one version of a feature reads or downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.errors import Json, VersionConflict
from aop.core.ids import FeatureId
from aop.core.text.json import pretty_json
from aop.kernel.gates.evidence_bundle import evidence_files
from aop.kernel.gateway.calls import Kernel
from aop.kernel.tools.repo.diff_bundle import DiffBundle
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web.review_page import review_page

Ask = Callable[[str, Mapping[str, Json]], Any]
"""Returns the data of a tool's answer, or raises what its caller makes of a refusal."""


class FeatureReview(Struct, frozen=True, kw_only=True):
    """The state of a feature and its diff, both of the same version."""

    summary: FeatureSummary
    bundle: DiffBundle

    def page(self) -> bytes:
        """Return the review as one HTML page."""
        return review_page(self.summary, self.bundle).encode(errors="backslashreplace")


def read_review(ask: Ask, feature: str) -> FeatureReview:
    """Read both from the record and git. Raises: VersionConflict if the feature changed in between."""
    which: dict[str, Json] = {"feature_id": feature}
    summary = msgspec.convert(ask("report.feature_summary", which), FeatureSummary)
    bundle = msgspec.convert(ask("repo.diff_bundle", which), DiffBundle)
    if summary.state.version != bundle.version:
        raise VersionConflict(f"The feature `{feature}`", expected=summary.state.version, current=bundle.version)
    return FeatureReview(summary=summary, bundle=bundle)


def bundle_files(ask: Ask, kernel: Kernel, feature: FeatureId) -> dict[str, bytes]:
    """Return the files of an evidence bundle, without secrets. Raises: as `read_review`."""
    review = read_review(ask, feature)
    reports = {
        "summary.json": pretty_json(msgspec.to_builtins(review.summary)),
        "verified.json": pretty_json(ask("evidence.verify", {"feature_id": feature})),
        "review.html": review.page(),
    }
    return evidence_files(kernel, feature, review.bundle.version, reports)
