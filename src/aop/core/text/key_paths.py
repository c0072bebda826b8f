"""Key paths: split from `core.yamltext`."""

from __future__ import annotations

from typing import TypeAlias

MAX_YAML_DEPTH = 40

KeyPath: TypeAlias = tuple[str | int, ...]
