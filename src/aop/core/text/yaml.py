"""YAML: one document of plain mappings, lists and scalars, each with its line.

No Python object is ever constructed. A plain scalar is `true`, `false`, `null`, `~`, nothing, a decimal integer or a
decimal number with a point. All else (`no`, `1_000`, `0x10`, `2026-01-01`), what is quoted, and a key is a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from aop.core.errors import Json
from aop.core.text.json import MalformedText, finite_number, utf8_bytes, utf8_text, whole_number
from aop.core.text.key_paths import MAX_YAML_DEPTH, KeyPath

MAX_YAML_BYTES = 64 * 1024

# The plain ones first: to ask the others takes ten times as long.
_NESTED = (dict, list, tuple, Mapping, Sequence)
# The longest key that YAML takes without a `?` before it.
_MAX_KEY = 1000
# Controls but tab and newline, line ends that only some readers count as such, the byte order mark, non-characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Plain for every YAML reader, old or new: one word that begins with a letter and is not some dialect's boolean or null.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_DIALECTS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])


class YamlText(Struct, frozen=True):
    """A parsed YAML text, and where its parts stand."""

    value: Json
    lines: dict[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """Return the line, from 1, of the key or item at a path; of the nearest part above it if that is absent."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]


def parse_yaml(text: bytes, *, limit: int = MAX_YAML_BYTES) -> YamlText:
    """Return the one document of a YAML text. Lines may end with CR LF. Raises: MalformedText."""
    if len(text) > limit:
        raise MalformedText(f"it is larger than {limit} bytes")
    decoded = utf8_text(text).replace("\r\n", "\n")
    if unprintable := _UNPRINTABLE.search(decoded):
        line = decoded.count("\n", 0, unprintable.start()) + 1
        raise MalformedText(f"it holds the control character U+{ord(unprintable.group()):04X}", line=line)
    # PyYAML costs a start-up more than all of `core` together: it is imported when there is YAML to read.
    from aop.core.text.yaml_events import read_document

    value, lines = read_document(decoded)
    return YamlText(value, lines)


def dump_yaml(value: Json) -> str:
    """Return block-style YAML that `parse_yaml` reads back. Raises: MalformedText for what YAML cannot hold."""
    return "".join(f"{line}\n" for line in _block(value, 0))


def _block(value: Json, depth: int) -> list[str]:
    if isinstance(value, str) or not isinstance(value, _NESTED):
        return [_scalar_text(value)]
    if depth == MAX_YAML_DEPTH:
        raise MalformedText(f"it is nested more than {MAX_YAML_DEPTH} levels deep")
    if not value:
        return ["{}" if isinstance(value, Mapping) else "[]"]
    lines: list[str] = []
    if isinstance(value, (dict, Mapping)):
        for key, member in value.items():
            lines += _entry(key, member, depth + 1)
    else:
        for item in value:
            first, *rest = _block(item, depth + 1)
            lines += [f"- {first}", *_indented(rest)]
    return lines


def _entry(key: str, member: Json, depth: int) -> list[str]:
    head = f"{_key(key)}:"
    if len(head) > _MAX_KEY:
        raise MalformedText(f"it has a key of more than {_MAX_KEY} characters")
    lines = _block(member, depth)
    nested = isinstance(member, _NESTED) and not isinstance(member, str) and len(member) > 0
    return [head, *_indented(lines)] if nested else [f"{head} {lines[0]}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _scalar_text(value: Json) -> str:
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, float):
        number = repr(finite_number(repr(value)))
        return number if "." in number else number.replace("e", ".0e")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(whole_number(str(value)))
    return json.dumps(value)


@lru_cache(maxsize=256)
def _key(text: str) -> str:
    return _word(text)


def _word(text: str) -> str:
    utf8_bytes(text)
    if _PLAIN.fullmatch(text) and text.casefold() not in _DIALECTS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
