"""Handed-in functions: new ids, and progress reports."""

from __future__ import annotations

from collections.abc import Callable

NewId = Callable[[str], str]
"""Makes an id that was never used before, with the given prefix."""
Report = Callable[[str], None]
"""Tells a person or a client what a long call is doing now."""
