"""Parts of a contract: the whole, one section, or the outline alone."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import ForgeSupportMissing, UnknownSection
from aop.core.text.json import MalformedText, parse_json, pretty_json
from aop.forge.broker.resolution import FoundContract
from aop.forge.contracts.outline import outline_of, section_of
from aop.forge.contracts.types import FORMATS
from aop.kernel.ports.tokenizer import Tokenizer

LONGEST_ANSWER_TOKENS = 20_000
"""Hosts refuse answers of tools that are longer than 25,000 tokens."""

BYTES_PER_TOKEN = 3
"""An estimate that is rather too low, where no tokenizer is installed."""


class ContractPart(Struct, frozen=True, kw_only=True):
    """What is answered of a contract."""

    content: str
    outline: tuple[str, ...] = ()
    """The sections of the whole contract, where a part of it was asked for, or all of it would be too long."""
    is_outline_only: bool = False


def part_of(found: FoundContract, section: str | None, tokenizer: Tokenizer | None) -> ContractPart:
    """Return a contract or one section of it; the outline alone if that is too long. Raises: UnknownSection."""
    content = found.content if section is None else _section(found, section)
    if is_too_long(content, tokenizer):
        return outline_alone(found)
    return ContractPart(content=content, outline=() if section is None else outline_names(found))


def _section(found: FoundContract, section: str) -> str:
    if found.contract_type is None:
        raise UnknownSection(f"`{found.name}` has no sections.", contract_type=found.name, sections=[])
    return section_of(found.contract_type, found.content, section)


def outline_alone(found: FoundContract) -> ContractPart:
    """Return what is answered in place of a text that is too long."""
    return ContractPart(content="", outline=outline_names(found), is_outline_only=True)


def is_too_long(content: str, tokenizer: Tokenizer | None) -> bool:
    """Tell whether a text has more than 20,000 tokens."""
    size = len(content.encode())
    # A token has at least one byte: most contracts need no count.
    if size <= LONGEST_ANSWER_TOKENS:
        return False
    try:
        count = None if tokenizer is None else tokenizer.count(content)
    except ForgeSupportMissing:
        count = None
    return (size // BYTES_PER_TOKEN if count is None else count) > LONGEST_ANSWER_TOKENS


def outline_names(found: FoundContract) -> tuple[str, ...]:
    """Return the sections of a contract, as `section` takes them."""
    if found.contract_type is None:
        return ()
    return tuple(row.section for row in outline_of(found.contract_type, found.content))


def pretty(found: FoundContract) -> str:
    """Return a contract's text; JSON indented (FORGE-032)."""
    if found.contract_type is None or FORMATS[found.contract_type] != "json":
        return found.content
    try:
        return pretty_json(parse_json(found.content)).decode()
    except MalformedText:
        return found.content
