"""Signer port: signatures of this repository's key, and of people's own keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Signatures(Protocol):
    """Checks the signatures that people make with keys of their own."""

    def signer_of(self, text: bytes, signature: str, signers: Sequence[str]) -> str | None:
        """Return the name of the allowed signer who signed this text; None if none of them did.

        Raises: SignaturesUnavailable.
        """


class Signer(Protocol):
    """Signs with a key that never leaves the adapter."""

    def sign(self, text: bytes) -> str:
        """Return the signature, as URL-safe text."""

    def verify(self, text: bytes, signature: str) -> bool:
        """Compare in constant time."""
