"""Tokenizer port: counts the tokens of a text, offline."""

from __future__ import annotations

from typing import Protocol


class Tokenizer(Protocol):
    """Counts tokens with one vocabulary; for models with another one the count is an estimate."""

    @property
    def name(self) -> str:
        """Return the name of the vocabulary."""

    def count(self, text: str) -> int:
        """Return the number of tokens: never more than the text has bytes. Raises: ForgeSupportMissing."""
