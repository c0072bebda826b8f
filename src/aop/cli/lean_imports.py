"""Imports what every command needs, without what that would import and few commands use: commands start sooner."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any


def import_leanly() -> None:
    """Import what is common to all commands; what somebody has imported already stays as it is."""
    # Its words are English, as all of AOP's are: nothing is translated.
    with standing_in("gettext", gettext=_as_it_is, ngettext=_one_or_many):
        import_module("argparse")
    # Needed for URLs of files, and for nothing else.
    with standing_in("urllib.parse", quote_from_bytes=_later("urllib.parse", "quote_from_bytes")):
        import_module("pathlib")
    # It asks for the name of the system, and for nothing else.
    with standing_in("platform", system=_system):
        import_module("uuid")
    # Three names of the first are Python's own by now; the others are needed to describe shapes, and for other formats.
    schemas = {name: _later("msgspec._json_schema", name) for name in ("schema", "schema_components")}
    with ExitStack() as without:
        without.enter_context(standing_in("typing_extensions"))
        without.enter_context(standing_in("msgspec._json_schema", **schemas))
        for name in ("inspect", "toml", "yaml"):
            without.enter_context(standing_in(f"msgspec.{name}", __getattr__=partial(_of_module, f"msgspec.{name}")))
        import_module("msgspec")


@contextmanager
def standing_in(name: str, **parts: Callable[..., Any]) -> Iterator[None]:
    """Let imports find a module that has these parts alone, or none at all if there are no parts."""
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    vars(module).update(parts)
    sys.modules[name] = module if parts else None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when the function is called."""

    def call(*words: Any, **options: Any) -> Any:
        return _of_module(module, name)(*words, **options)

    return call


# To describe all tools takes 67,000 parts of one module.
@cache
def _of_module(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _system() -> str:
    return os.uname().sysname


def _as_it_is(text: str) -> str:
    return text


def _one_or_many(one: str, many: str, count: int) -> str:
    return one if count == 1 else many
