"""Shapes of answers: the JSON Schema for a model, and strict parsing."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from aop.core.errors import ModelAnswerInvalid
from aop.core.text.json import MalformedText, parse_json

T = TypeVar("T", bound=Struct)


def schema_of(shape: type[Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct without a reference at the top, which providers reject."""
    (top,), parts = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    name = top["$ref"].rpartition("/")[2]
    schema = dict(parts[name])
    used = _names_used(schema, parts, set())
    if used:
        schema["$defs"] = {part: parts[part] for part in sorted(used)}
    return schema


def read_as(shape: type[T], text: str) -> T:
    """Parse a model's answer strictly. Raises: ModelAnswerInvalid."""
    try:
        return msgspec.convert(parse_json(text), type=shape, strict=True)
    except MalformedText as problem:
        why = problem.reason
    except msgspec.ValidationError as problem:
        why = str(problem)[:500]
    raise ModelAnswerInvalid(f"The answer is not a valid `{shape.__name__}`: {why}.")


def _names_used(node: Any, parts: dict[str, Any], found: set[str]) -> set[str]:
    """Return the parts that a schema refers to, directly or through others."""
    if isinstance(node, dict):
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name in parts and name not in found:
            found.add(name)
            _names_used(parts[name], parts, found)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _names_used(child, parts, found)
    return found
