"""Opened paths: guarded paths that a person opened for one feature until it ends."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import Document, next_version
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Snapshot, Transaction

YES: Literal["yes"] = "yes"
NO: Literal["no"] = "no"
"""The answers to an authorisation about a path."""


class PathAnswer(Struct, frozen=True, kw_only=True):
    """A person's answer to a worker that asked for one guarded path."""

    path: str
    reason: str
    """Why the worker asked, in its own words."""
    question_id: str
    answer: Literal["yes", "no"]
    """The person's words."""
    answered_by: str
    answered_at: str
    ended: str = ""
    """Why it no longer counts; empty while it does."""


class Permits(Document, frozen=True, kw_only=True):
    """All answers about the paths of one feature."""

    kind: ClassVar[str] = "permits"

    feature_id: FeatureId
    answers: tuple[PathAnswer, ...] = ()


def path_answers(view: Snapshot, feature_id: FeatureId) -> tuple[PathAnswer, ...]:
    """Return all answers about paths of a feature, oldest first, with those that no longer count."""
    known = view.get(Permits, feature_id)
    return () if known is None else known.answers


def opened_paths(view: Snapshot, feature_id: FeatureId) -> frozenset[str]:
    """Return the guarded paths that a feature may change."""
    return frozenset(each.path for each in path_answers(view, feature_id) if each.answer == YES and not each.ended)


def current_path_answer(view: Snapshot, feature_id: FeatureId, path: str) -> PathAnswer | None:
    """Return a person's answer about a path, if it still counts."""
    return next((each for each in path_answers(view, feature_id) if each.path == path and not each.ended), None)


def store_path_answer(tx: Transaction, question: Question) -> None:
    """Store the answer to a question about a path."""
    answer = PathAnswer(
        path=question.opens,
        reason=str(question.detail.get("reason", "")),
        question_id=question.question_id,
        answer=YES if question.answer == YES else NO,
        answered_by=question.answered_by,
        answered_at=question.answered_at,
    )
    _store_answers(tx, question.feature_id, (*path_answers(tx, question.feature_id), answer))


def expire_path_answers(tx: Transaction, feature_id: FeatureId, status: Status) -> None:
    """End all answers of a feature that has ended: after a restart it asks again."""
    answers = path_answers(tx, feature_id)
    if any(not each.ended for each in answers):
        why = f"The feature became `{status}`."
        ended = tuple(msgspec.structs.replace(each, ended=each.ended or why) for each in answers)
        _store_answers(tx, feature_id, ended)


def _store_answers(tx: Transaction, feature_id: FeatureId, answers: tuple[PathAnswer, ...]) -> None:
    version = next_version(tx.get(Permits, feature_id))
    tx.put(Permits(version=version, feature_id=feature_id, answers=answers), feature_id)
