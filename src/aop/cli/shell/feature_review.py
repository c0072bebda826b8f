"""Feature review: what a reviewer of one version of a feature reads."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.cli.shell.repository import call_tool
from aop.core.errors import VersionConflict
from aop.kernel.tools.repo.diff_bundle import DiffBundle
from aop.kernel.tools.report.feature_summary import FeatureSummary
from aop.web.review_page import review_page
from aop.wiring.build import App


class FeatureReview(Struct, frozen=True, kw_only=True):
    """The state of a feature and its diff, both of the same version."""

    summary: FeatureSummary
    bundle: DiffBundle

    def page(self) -> bytes:
        """Return the review as one HTML page."""
        return review_page(self.summary, self.bundle).encode(errors="backslashreplace")


def read_review(app: App, feature: str) -> FeatureReview:
    """Read both from the record and git. Raises: CallRefused; VersionConflict if the feature changed in between."""
    which = {"feature_id": feature}
    summary = msgspec.convert(call_tool(app, "report.feature_summary", which).data, FeatureSummary)
    bundle = msgspec.convert(call_tool(app, "repo.diff_bundle", which).data, DiffBundle)
    if summary.state.version != bundle.version:
        raise VersionConflict(f"The feature `{feature}`", expected=summary.state.version, current=bundle.version)
    return FeatureReview(summary=summary, bundle=bundle)
