"""JSON: strict reading, and one canonical form for hashes.

`MalformedText` is the one exception of all text formats. The standard `json` is imported by the calls that need it.
"""

from __future__ import annotations

from math import isfinite

import msgspec

from aop.core.errors import Json

MAX_JSON_BYTES = 4 * 1024 * 1024
MAX_JSON_DEPTH = 100

_INT64_DIGITS = 19
_INT64_MAX = 2**63 - 1


class MalformedText(Exception):
    """A text that is not what its format demands."""

    def __init__(self, reason: str, *, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


def parse_json(data: bytes | str, *, limit: int = MAX_JSON_BYTES) -> Json:
    """Return the value of a JSON text. Raises: MalformedText."""
    import json

    raw = data if isinstance(data, bytes) else utf8_bytes(data)
    if len(raw) > limit:
        raise MalformedText(f"it is larger than {limit} bytes")
    try:
        value: Json = json.loads(
            utf8_text(raw),
            object_pairs_hook=_object,
            parse_int=whole_number,
            parse_float=finite_number,
            parse_constant=finite_number,
        )
    except json.JSONDecodeError as problem:
        raise MalformedText(f"it is not JSON: {problem.msg}", line=problem.lineno) from problem
    except RecursionError as problem:
        raise MalformedText(_TOO_DEEP) from problem
    _refuse_depth_and_surrogates(value)
    return value


def canonical_json(value: Json) -> bytes:
    """Return the one form of a value for hashes and signatures. Raises: MalformedText for what JSON cannot hold."""
    return _encode(value, sort_keys=True)


def pretty_json(value: Json) -> bytes:
    """Return a value as people read it, in its own key order. Raises: MalformedText for what JSON cannot hold."""
    # Written first and laid out afterwards: the standard library does both at once, and ten times as slowly.
    return msgspec.json.format(_encode(value, sort_keys=False), indent=2) + b"\n"


def utf8_text(raw: bytes) -> str:
    """Decode text that must be UTF-8 without a byte order mark. Raises: MalformedText."""
    if raw.startswith(b"\xef\xbb\xbf"):
        raise MalformedText("it begins with a byte order mark")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise MalformedText("it is not UTF-8", line=raw.count(b"\n", 0, problem.start) + 1) from problem


def utf8_bytes(text: str) -> bytes:
    """Encode text. Raises: MalformedText if it holds half of a surrogate pair, which no file could store."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise MalformedText("it holds a lone surrogate", line=text.count("\n", 0, problem.start) + 1) from problem


def whole_number(digits: str) -> int:
    """Return a decimal integer that fits into 64 bits. Raises: MalformedText."""
    if len(digits.removeprefix("-")) > _INT64_DIGITS or not -_INT64_MAX - 1 <= int(digits) <= _INT64_MAX:
        raise MalformedText("it holds an integer of more than 64 bits")
    return int(digits)


def finite_number(text: str) -> float:
    """Return a decimal number that a float can hold. Raises: MalformedText."""
    number = float(text)
    if not isfinite(number):
        raise MalformedText("it holds a number that is not finite")
    return number


_TOO_DEEP = f"it is nested more than {MAX_JSON_DEPTH} levels deep"


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members: dict[str, Json] = {}
    for name, value in pairs:
        if name in members:
            raise MalformedText(f"it has the key {name[:80]!a} twice in one object")
        members[name] = value
    return members


def _refuse_depth_and_surrogates(value: Json) -> None:
    level: list[Json] = [value]
    depth = 0
    while level:
        objects = [node for node in level if isinstance(node, dict)]
        arrays = [node for node in level if isinstance(node, list)]
        if depth == MAX_JSON_DEPTH and (objects or arrays):
            raise MalformedText(_TOO_DEEP)
        for node in level:
            if isinstance(node, str):
                utf8_bytes(node)
        level = [child for node in objects for child in (*node, *node.values())]
        level += [child for node in arrays for child in node]
        depth += 1


def _encode(value: Json, *, sort_keys: bool) -> bytes:
    import json

    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=False, allow_nan=False)
    except ValueError as problem:
        raise MalformedText("it holds a number that is not finite, or itself") from problem
    except RecursionError as problem:
        raise MalformedText(_TOO_DEEP) from problem
    return utf8_bytes(text)
