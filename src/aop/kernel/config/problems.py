"""Configuration problems: the key, its line, and the values that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import get_args, get_type_hints

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.core.paths.names import printable_text
from aop.core.text.key_paths import KeyPath
from aop.core.text.suggestions import closest
from aop.kernel.config.checks import Misfit

# How msgspec ends a message: ` - at `$.locks.resources[0]``, where `[...]` is one key of a map and does not say which.
_PLACED = re.compile(r"(.*?)(?: - at (`key` in )?`\$((?:\.\w+|\[\d+\]|\[\.\.\.\])*)`)?", re.DOTALL)
_PART = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_NOT_A_MEMBER = re.compile(r"Invalid enum value (.*)", re.DOTALL)


def locate(problem: msgspec.ValidationError, document: Json, model: type[Struct]) -> tuple[KeyPath, str]:
    """Return the path of the key that a conversion stumbled over, and the reason."""
    placed = _PLACED.fullmatch(str(problem))
    message, in_keys, place = placed.groups() if placed else (str(problem), None, None)
    path = _named_path(_parts(place or "") + [None] * bool(in_keys), str(problem), document, model)
    if isinstance(problem.__cause__, Misfit):
        return (*path, *problem.__cause__.path), printable_text(str(problem.__cause__))
    if unknown := _UNKNOWN.fullmatch(message):
        return (*path, unknown[1]), _unknown_key(unknown[1], _type_at(model, path))
    if missing := _MISSING.fullmatch(message):
        return (*path, missing[1]), "it is missing"
    if stranger := _NOT_A_MEMBER.fullmatch(message):
        shape = get_args(_type_at(model, path[:-1]))[0] if in_keys else _type_at(model, path)
        return path, f"it must be {_members(shape)}, not {printable_text(stranger[1])}"
    return path, printable_text(message[:1].lower() + message[1:])


def key_text(path: KeyPath) -> str:
    """Return a path as people write it: `profiles.default.modes.fast[0].cmd`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return printable_text(text.removeprefix("."))


def _parts(place: str) -> list[str | int | None]:
    return [name or (int(index) if index else None) for name, index in _PART.findall(place)]


def _named_path(parts: Sequence[str | int | None], message: str, document: Json, model: type[Struct]) -> KeyPath:
    """Find the key of each map on the way: the one that alone in its map still leads to the same message."""
    path: KeyPath = ()
    for part in parts:
        if part is not None:
            path = (*path, part)
            continue
        members = _value_at(document, path)
        for key, value in members.items() if isinstance(members, Mapping) else ():
            alone = _replaced(document, path, {key: value})
            if _message(alone, model) == message:
                document, path = alone, (*path, key)
                break
    return path


def _message(document: Json, model: type[Struct]) -> str:
    try:
        msgspec.convert(document, model)
    except msgspec.ValidationError as problem:
        return str(problem)
    return ""


def _value_at(document: Json, path: KeyPath) -> Json:
    for part in path:
        if isinstance(part, str) and isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(part, int) and isinstance(document, list) and part < len(document):
            document = document[part]
        else:
            return None
    return document


def _replaced(document: Json, path: KeyPath, value: Json) -> Json:
    if not path:
        return value
    part, *rest = path
    below = _replaced(_value_at(document, (part,)), tuple(rest), value)
    if isinstance(document, list):
        return [below if index == part else item for index, item in enumerate(document)]
    return {**document, str(part): below} if isinstance(document, Mapping) else document


def _type_at(shape: object, path: KeyPath) -> object:
    for part in path:
        if isinstance(shape, type) and issubclass(shape, Struct):
            shape = get_type_hints(shape).get(str(part))
        else:
            of_keys_and_values = get_args(shape)
            shape = of_keys_and_values[-1 if isinstance(part, str) else 0] if of_keys_and_values else None
        if NoneType in get_args(shape):
            shape = get_args(shape)[0]
    return shape


def _unknown_key(name: str, shape: object) -> str:
    known = shape.__struct_fields__ if isinstance(shape, type) and issubclass(shape, Struct) else ()
    near = closest(name, known)
    return f"there is no such key; did you mean `{near}`?" if near else "there is no such key"


def _members(shape: object) -> str:
    members = list(shape) if isinstance(shape, type) and issubclass(shape, StrEnum) else get_args(shape)
    *most, last = (f"`{'true' if member is True else member}`" for member in members)
    return f"{', '.join(most)} or {last}" if most else last
