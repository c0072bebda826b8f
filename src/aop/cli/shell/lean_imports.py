"""Lean imports: modules that every command needs, without the parts that few use."""

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
    """Import what all commands share; modules that are imported already stay as they are."""
    # AOP speaks English only: nothing is translated.
    with stand_in("gettext", gettext=_untranslated, ngettext=_singular_or_plural):
        import_module("argparse")
    # pathlib needs it for URLs of files only.
    with stand_in("urllib.parse", quote_from_bytes=_deferred("urllib.parse", "quote_from_bytes")):
        import_module("pathlib")
    # uuid asks it for the name of the system only.
    with stand_in("platform", system=_system):
        import_module("uuid")
    # Python has what msgspec takes from the first; the others describe shapes, or serve other formats.
    schemas = {name: _deferred("msgspec._json_schema", name) for name in ("schema", "schema_components")}
    with ExitStack() as without:
        without.enter_context(stand_in("typing_extensions"))
        without.enter_context(stand_in("msgspec._json_schema", **schemas))
        for name in ("inspect", "toml", "yaml"):
            without.enter_context(stand_in(f"msgspec.{name}", __getattr__=partial(_attribute, f"msgspec.{name}")))
        import_module("msgspec")


@contextmanager
def stand_in(name: str, **parts: Callable[..., Any]) -> Iterator[None]:
    """Let imports find a module with only these parts, or no module if there are no parts."""
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


def _deferred(module: str, name: str) -> Callable[..., Any]:
    """Return a function whose module is imported at the first call."""

    def call(*words: Any, **options: Any) -> Any:
        return _attribute(module, name)(*words, **options)

    return call


# Describing all tools looks up 67,000 attributes of one module.
@cache
def _attribute(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _system() -> str:
    return os.uname().sysname


def _untranslated(text: str) -> str:
    return text


def _singular_or_plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many
