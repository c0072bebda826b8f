"""Readers: one strict reader for each type of contract; every door uses them."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import ContractRefused
from aop.core.text.json import MalformedText, utf8_bytes
from aop.forge.contracts.shapes.boundaries import Boundaries, read_boundaries
from aop.forge.contracts.shapes.directive import Directive, read_directive
from aop.forge.contracts.shapes.phases import Phases, read_phases
from aop.forge.contracts.shapes.physics import Physics, read_physics
from aop.forge.contracts.shapes.problems import Problems, find_placeholders, is_apology, quoted
from aop.forge.contracts.shapes.prose import Prose, read_prose
from aop.forge.contracts.shapes.schema import Schema, read_schema
from aop.forge.contracts.types import CONTRACT_TYPES, FORMATS, BuildMode, ContractType

MAX_CONTRACT_BYTES = 128 * 1024
SHORTEST_PROSE = 300

ContractContent = Prose | Schema | Physics | Boundaries | Phases | Directive


class ReadContract(Struct, frozen=True, kw_only=True):
    """A contract that its reader accepted."""

    contract_type: ContractType
    text: str
    content: ContractContent


def read_contract(contract_type: ContractType, text: str, mode: BuildMode) -> ReadContract:
    """Return a contract as its reader understands it. Raises: ContractRefused with everything that is wrong."""
    problems, content = _read(contract_type, text, mode)
    if content is None or problems:
        if content is not None and (other := _other_type(contract_type, text, mode)):
            problems = (f"This is a {other} contract.", *problems)
        raise refusal(contract_type, problems)
    return ReadContract(contract_type=contract_type, text=text, content=content)


def refusal(contract_type: ContractType, problems: tuple[str, ...]) -> ContractRefused:
    """Return the refusal that names these problems."""
    return ContractRefused(
        f"The {contract_type} contract is refused. {' '.join(problems)}",
        contract_type=contract_type,
        problems=list(problems),
    )


def _read(contract_type: ContractType, text: str, mode: BuildMode) -> tuple[tuple[str, ...], ContractContent | None]:
    if problem := _not_a_contract(contract_type, text):
        return (problem,), None
    problems = Problems()
    if FORMATS[contract_type] == "markdown":
        _check_markdown(text, problems)
    content = _content(contract_type, text, mode, problems)
    find_placeholders(text, problems, skip_code=FORMATS[contract_type] == "markdown")
    return problems.listed(), content


def _not_a_contract(contract_type: ContractType, text: str) -> str | None:
    """Return why a text is not worth reading, or None."""
    try:
        size = len(utf8_bytes(text))
    except MalformedText as problem:
        return f"It is not text: {problem.reason}."
    if size > MAX_CONTRACT_BYTES:
        return f"It has {size} bytes; a contract has at most {MAX_CONTRACT_BYTES}."
    if not text.strip():
        return "It is empty."
    if is_apology(text):
        return f"It is an apology, not a {contract_type} contract: {quoted(text.strip().splitlines()[0])}"
    if "\0" in text:
        return "It holds a NUL character."
    return None


def _check_markdown(text: str, problems: Problems) -> None:
    first = text.lstrip("\n").split("\n", 1)[0]
    if not first.startswith("# "):
        problems.add(
            f"It begins with {quoted(first)}; the first line is the title, `# ...`, without words or a fence before it."
        )
    if len(text) < SHORTEST_PROSE:
        problems.add(f"It has {len(text)} characters; fewer than {SHORTEST_PROSE} say too little.")


def _content(contract_type: ContractType, text: str, mode: BuildMode, problems: Problems) -> ContractContent:
    match contract_type:
        case ContractType.SCHEMA:
            return read_schema(text, problems)
        case ContractType.PHYSICS:
            return read_physics(text, MAX_CONTRACT_BYTES, problems)
        case ContractType.BOUNDARIES:
            return read_boundaries(text, problems)
        case ContractType.PHASES:
            return read_phases(text, mode, problems)
        case ContractType.BUILDER_DIRECTIVE:
            return read_directive(text, mode, problems)
        case _:
            return read_prose(contract_type, text, problems)


def _other_type(contract_type: ContractType, text: str, mode: BuildMode) -> ContractType | None:
    """Return the type whose reader accepts a text that this type's reader refuses."""
    return next((other for other in CONTRACT_TYPES if other != contract_type and not _read(other, text, mode)[0]), None)
