"""Outline of a contract: its sections, and the text of one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from aop.core.errors import Json, UnknownSection
from aop.core.text.json import MalformedText, parse_json, pretty_json, utf8_bytes
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.core.text.yaml import dump_yaml, parse_yaml
from aop.forge.contracts.readers import MAX_CONTRACT_BYTES
from aop.forge.contracts.shapes.markdown import Section, plain_title, sections_of
from aop.forge.contracts.types import FORMATS, ContractType

_DEPTH = 2
"""Levels of a JSON or YAML contract that its outline names; a pointer may go deeper."""


class OutlineRow(Struct, frozen=True, kw_only=True):
    """One section that can be asked for."""

    section: str
    """The heading, or a JSON pointer."""
    level: int
    characters: int


def outline_of(contract_type: ContractType, text: str) -> tuple[OutlineRow, ...]:
    """Return the sections of a contract, in order; none for a text that has no structure."""
    if FORMATS[contract_type] == "markdown":
        lines = text.split("\n")
        return tuple(
            OutlineRow(section=name, level=section.level, characters=len(_lines_of(section, lines)))
            for name, section in _named(sections_of(text))
        )
    return tuple(
        OutlineRow(section=pointer, level=pointer.count("/"), characters=len(_dumped(contract_type, value)))
        for pointer, value in _pointers(_value(contract_type, text), "", _DEPTH)
    )


def section_of(contract_type: ContractType, text: str, section: str) -> str:
    """Return the text of one section, with its heading. Raises: UnknownSection."""
    if FORMATS[contract_type] == "markdown":
        return _markdown_section(contract_type, text, section)
    value = _value(contract_type, text)
    for part in _pointer_parts(section):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and part.isascii() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise _unknown(contract_type, text, section)
    return _dumped(contract_type, value)


def _markdown_section(contract_type: ContractType, text: str, section: str) -> str:
    wanted = plain_title(section.lstrip("# "))
    named = _named(sections_of(text))
    hits = [each for name, each in named if wanted in (plain_title(name), plain_title(each.title))]
    if not hits:
        hits = [each for name, each in named if name == section]
    if not hits:
        raise _unknown(contract_type, text, section)
    return _lines_of(hits[0], text.split("\n"))


def _named(sections: Sequence[Section]) -> list[tuple[str, Section]]:
    """Return each section with a name of its own: a heading that is there twice has its parent before it."""
    counts = Counter(plain_title(each.title) for each in sections)
    named: list[tuple[str, Section]] = []
    above: list[Section] = []
    for each in sections:
        above = [parent for parent in above if parent.level < each.level]
        twice = counts[plain_title(each.title)] > 1 and above
        named.append((f"{above[-1].title} / {each.title}" if twice else each.title, each))
        above.append(each)
    return named


def _lines_of(section: Section, lines: Sequence[str]) -> str:
    return "\n".join(lines[section.line - 1 : section.end]).rstrip("\n") + "\n"


def _value(contract_type: ContractType, text: str) -> Json:
    try:
        if FORMATS[contract_type] == "json":
            return parse_json(text)
        return parse_yaml(utf8_bytes(text), limit=MAX_CONTRACT_BYTES).value
    except MalformedText:
        return None


def _dumped(contract_type: ContractType, value: Json) -> str:
    return pretty_json(value).decode() if FORMATS[contract_type] == "json" else dump_yaml(value)


def _pointers(value: Json, prefix: str, depth: int) -> Iterator[tuple[str, Json]]:
    if depth == 0:
        return
    members = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        pointer = f"{prefix}/{str(name).replace('~', '~0').replace('/', '~1')}"
        yield pointer, member
        if isinstance(member, (dict, list)):
            yield from _pointers(member, pointer, depth - 1)


def _pointer_parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix("/").split("/")]


def _unknown(contract_type: ContractType, text: str, section: str) -> UnknownSection:
    names = [row.section for row in outline_of(contract_type, text)]
    return UnknownSection(
        f"The {contract_type} contract has no section `{visible(section[:80])}`.{did_you_mean(section, names)}",
        contract_type=contract_type,
        sections=names[:100],
    )
