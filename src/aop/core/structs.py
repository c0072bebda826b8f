"""Structs: the base of values that are stored as JSON and read back strictly."""

from __future__ import annotations

from msgspec import Struct


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a stored value: unknown fields are refused, defaults are left out."""
