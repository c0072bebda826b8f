"""Slugs: the words of a text as a short name that every file system takes."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 40


def slug_of(text: str) -> str:
    """Return the first words of a text in small letters, joined by hyphens; empty for a text without Latin ones."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = ""
    for word in re.findall(r"[a-z0-9]+", plain):
        longer = f"{slug}-{word}" if slug else word[:LONGEST]
        if len(longer) > LONGEST:
            break
        slug = longer
    return slug
