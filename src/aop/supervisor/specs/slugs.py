"""Slugs: feature ids made from the words of a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import count

from aop.core.errors import InvalidFeatureSlug
from aop.core.ids import FeatureId, feature_id

LONGEST = 40
NAMELESS = "fix"
"""The id of a text without a letter or digit of the Latin alphabet."""


def unused_id(text: str, is_taken: Callable[[str], bool]) -> FeatureId:
    """Return an id of the text's first words that is valid and not taken; a number makes it unique."""
    slug = slug_of(text)
    candidates = (slug if number == 1 else f"{slug}-{number}" for number in count(1))
    return next(FeatureId(name) for name in candidates if _is_valid(name) and not is_taken(name))


def slug_of(text: str) -> str:
    """Return the first words of a text in small letters, joined by hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = ""
    for word in re.findall(r"[a-z0-9]+", plain):
        longer = f"{slug}-{word}" if slug else word[:LONGEST]
        if len(longer) > LONGEST:
            break
        slug = longer
    return slug or NAMELESS


def _is_valid(name: str) -> bool:
    try:
        feature_id(name)
    except InvalidFeatureSlug:
        return False
    return True
