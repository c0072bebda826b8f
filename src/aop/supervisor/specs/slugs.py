"""Slugs: feature ids made from the words of a text."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from aop.core.errors import InvalidFeatureSlug
from aop.core.ids import FeatureId, feature_id
from aop.core.text.slugs import slug_of

NAMELESS = "fix"
"""The id of a text without a letter or digit of the Latin alphabet."""


def unused_id(text: str, is_taken: Callable[[str], bool]) -> FeatureId:
    """Return an id of the text's first words that is valid and not taken; a number makes it unique."""
    slug = slug_of(text) or NAMELESS
    candidates = (slug if number == 1 else f"{slug}-{number}" for number in count(1))
    return next(FeatureId(name) for name in candidates if _is_valid(name) and not is_taken(name))


def _is_valid(name: str) -> bool:
    try:
        feature_id(name)
    except InvalidFeatureSlug:
        return False
    return True
