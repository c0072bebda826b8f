"""Syntax: whether a file can be parsed, and which parser says so."""

from __future__ import annotations

from typing import Protocol, cast

from msgspec import Struct

from aop.kernel.gateway.calls import Kernel

SYNTAX = "syntax"


class SyntaxVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of a parser on one file."""

    valid: bool | None
    """None if nothing here knows the language."""
    checker: str = ""
    """The parser, such as `python 3.11`; empty if there is none."""
    problems: tuple[str, ...] = ()
    """The problems, each with its line."""


class SyntaxParsers(Protocol):
    """The parsers of this machine."""

    def check(self, path: str, content: bytes) -> SyntaxVerdict:
        """Parse a file by the language that its name says; nothing of it is run."""


def syntax_of(kernel: Kernel, path: str, content: bytes) -> SyntaxVerdict:
    """Return whether a file can be parsed."""
    return cast("SyntaxParsers", kernel.capabilities[SYNTAX]()).check(path, content)
