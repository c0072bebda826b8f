"""What the record keeps of a question to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from aop.core.ids import FeatureId
from aop.kernel.documents import Document, NonEmpty

HumanGate: TypeAlias = Literal["question", "approval", "escalation", "authorisation"]
RAISE, STOP = "raise", "stop"
"""The answers to an authorisation about cost."""


class Question(Document, frozen=True, kw_only=True):
    """Something that only a person can answer; it stays open until one does."""

    kind: ClassVar[str] = "question"

    question_id: NonEmpty
    """Short, for a person types it."""
    feature_id: FeatureId
    gate: HumanGate
    text: NonEmpty
    detail: Mapping[str, Any] = {}
    about: str = ""
    """What several features may ask at once, and a person answers once; empty for what only this one asks."""
    choices: tuple[str, ...] = ()
    """The only answers that there are; empty where any text is one."""
    asked_by: NonEmpty
    asked_at: NonEmpty
    answer: str | None = None
    answered_by: str = ""
    answered_at: str = ""
