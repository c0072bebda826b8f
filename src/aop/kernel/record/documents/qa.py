"""QA index documents: the hunks of a feature and their review status."""

from typing import ClassVar, Literal

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import Document, NonEmpty

QaStatus = Literal["pending", "running", "passed", "failed", "waived"]


class QaHunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One changed stretch of a file: what is tested, and what is known of it."""

    ref: str = ""
    """The same as long as the hunk is; a patch elsewhere, which only moves it, leaves it alone."""
    start_line: int
    end_line: int
    change_type: Literal["added", "modified", "deleted"]
    status: QaStatus = "pending"
    evidence_refs: tuple[str, ...] = ()
    reason: str = ""
    """Why it was waived."""


class QaItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One changed file; its status is that of its hunks together."""

    path: NonEmpty
    hunks: tuple[QaHunk, ...]
    required_tests: tuple[str, ...]
    status: QaStatus
    last_run_at: str | None = None
    evidence_refs: tuple[str, ...] = ()


class QaIndex(Document, frozen=True, kw_only=True):
    """The hunks that QA must check; `qa_test_index.json` is written from it (AOP-143)."""

    kind: ClassVar[str] = "qa_index"

    feature_id: FeatureId
    source_diff_ref: str
    items: tuple[QaItem, ...]
