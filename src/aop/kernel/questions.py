"""What the record keeps of a question to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from aop.core.ids import FeatureId
from aop.kernel.documents import Document, NonEmpty


class Question(Document, frozen=True, kw_only=True):
    """Something that only a person can answer; it stays open until one does."""

    kind: ClassVar[str] = "question"

    question_id: NonEmpty
    """Short, for a person types it."""
    feature_id: FeatureId
    gate: Literal["question", "approval", "escalation", "authorisation"]
    text: NonEmpty
    detail: Mapping[str, Any] = {}
    asked_by: NonEmpty
    asked_at: NonEmpty
    answer: str | None = None
    answered_by: str = ""
    answered_at: str = ""
