"""Reviewer port: a model that reviews code and only reports findings."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from aop.kernel.record.documents.usage import Usage


class ReviewRequest(Struct, frozen=True, kw_only=True):
    """A change, as a reviewer sees it."""

    persona: str
    title: str
    description: str
    plan: str
    """The task, as JSON."""
    diff: str


class Opinion(Struct, frozen=True, kw_only=True):
    """A model's report on a change."""

    report: Any
    """Unchecked JSON."""
    model: str
    usage: Usage


class Reviewer(Protocol):
    """Asks a model for its opinion of a change."""

    def review(self, wanted: ReviewRequest, model: str) -> Opinion:
        """Ask the model of this name; `default` is the one of the environment. Raises: a refusal of a model."""
