"""Text of a manifest: read strictly, with the line that names a package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aop.core.errors import Json
from aop.core.text.json import MalformedText, parse_json
from aop.forge.scan.file_facts import Dependency, Ecosystem, Group

T = TypeVar("T")

UNREADABLE = (MalformedText, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a file that is no manifest raises on its way through a reader."""


def text_of_manifest(content: bytes) -> str:
    """Return the text; bytes that are not UTF-8 are replaced."""
    return content.decode("utf-8-sig", "replace")


def toml_of(content: bytes) -> dict[str, Any]:
    """Return a TOML file as a table. Raises: ValueError."""
    return tomllib.loads(content.decode("utf-8-sig"))


def json_of(content: bytes, *, limit: int) -> Mapping[str, Any]:
    """Return a JSON file as an object. Raises: MalformedText, ValueError."""
    value: Json = parse_json(content, limit=limit)
    if not isinstance(value, Mapping):
        raise ValueError("it is not an object")
    return value


def table(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the table below some keys; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def words(value: object) -> list[str]:
    """Return the texts of a list; none where there is no list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, Sequence | list) else []


def plain_text(value: object) -> str:
    """Return a text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def with_lines(text: str, dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """Return dependencies with the first line that has their name as a word."""
    from msgspec.structs import replace

    lines = text.splitlines()
    return tuple(replace(each, line=line_naming(lines, each.name)) for each in dependencies)


def line_naming(lines: Sequence[str], name: str) -> int:
    """Return the first line that has a name, from 1; 0 if none has."""
    whole = re.compile(rf"(?<![\w@/-]){re.escape(name)}(?![\w/-])")
    return next((number for number, line in enumerate(lines, start=1) if name in line and whole.search(line)), 0)


def dependencies_of(
    ecosystem: Ecosystem, wanted: Mapping[str, object], group: Group, constraint: Callable[[object], str]
) -> list[Dependency]:
    """Return the packages of a table of names."""
    return [
        Dependency(name=name, constraint=constraint(value), ecosystem=ecosystem, group=group)
        for name, value in wanted.items()
    ]
