"""Where a spec was taken from, as features and specs keep it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class SpecSource(Struct, frozen=True, kw_only=True):
    """Where a spec was taken from (AOP-307)."""

    source_path: Annotated[str, Meta(min_length=1)]
    """From the repository's root where it lies there, else only its name."""
    sha256: Annotated[str, Meta(min_length=1)]
    """Of the text that was taken."""
