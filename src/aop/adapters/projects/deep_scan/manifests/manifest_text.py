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
"""The exceptions that a reader raises for a file that is not a manifest."""

MOST_DOTS = 500

_WORDS = re.compile(r"[\w@/.-]+")


def text_of_manifest(content: bytes) -> str:
    """Return the text; bytes that are not UTF-8 are replaced."""
    return content.decode("utf-8-sig", "replace")


def toml_of(content: bytes) -> dict[str, Any]:
    """Return a TOML file as a table. Raises: ValueError."""
    text = content.decode("utf-8-sig")
    # The reader takes as many steps for a key as the square of its parts.
    if max((line.count(".") for line in text.splitlines()), default=0) > MOST_DOTS:
        raise ValueError(f"it has more than {MOST_DOTS} dots in a line")
    return tomllib.loads(text)


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

    places = _places(text)
    return tuple(replace(each, line=places.get(each.name, 0)) for each in dependencies)


def _places(text: str) -> dict[str, int]:
    """Return the first line of each word, also of its part before a dot: `name.workspace` names a package too."""
    places: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _WORDS.finditer(line):
            word = match.group().rstrip(".")
            places.setdefault(word, number)
            places.setdefault(word.partition(".")[0], number)
    return places


def dependencies_of(
    ecosystem: Ecosystem, wanted: Mapping[str, object], group: Group, constraint: Callable[[object], str]
) -> list[Dependency]:
    """Return the packages of a table of names."""
    return [
        Dependency(name=name, constraint=constraint(value), ecosystem=ecosystem, group=group)
        for name, value in wanted.items()
    ]
