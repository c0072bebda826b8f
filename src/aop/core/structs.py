"""Structs: the base of values that are stored as JSON and read back strictly."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a stored value: unknown fields are refused, defaults are left out."""


def copy_fields(shape: type[S], source: object, **more: object) -> S:
    """Return a struct with the fields that it shares with another value, and more."""
    shared = {name: getattr(source, name) for name in shape.__struct_fields__ if hasattr(source, name)}
    return shape(**{**shared, **more})
