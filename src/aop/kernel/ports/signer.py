"""Signer port: signatures that only this repository's key can make."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """Signs with a key that never leaves the adapter."""

    def sign(self, text: bytes) -> str:
        """Return the signature, as URL-safe text."""

    def verify(self, text: bytes, signature: str) -> bool:
        """Compare in constant time."""
