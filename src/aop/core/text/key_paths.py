"""Key paths: the place of a value in a YAML document, and how deep it may be."""

from __future__ import annotations

from typing import TypeAlias

MAX_YAML_DEPTH = 40

KeyPath: TypeAlias = tuple[str | int, ...]
