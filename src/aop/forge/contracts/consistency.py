"""Consistency: contradictions between contracts, and to the anchor, computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from aop.core.errors import ContractRefused
from aop.forge.contracts.readers import ReadContract, read_contract
from aop.forge.contracts.shapes.boundaries import Boundaries
from aop.forge.contracts.shapes.directive import Directive
from aop.forge.contracts.shapes.phases import Phases
from aop.forge.contracts.shapes.physics import Physics
from aop.forge.contracts.shapes.problems import quoted
from aop.forge.contracts.shapes.schema import Schema
from aop.forge.contracts.technologies import (
    KINDS,
    LANGUAGES_OF_PROGRAM,
    LANGUAGES_OF_SUFFIX,
    languages_in,
    technologies_in,
)
from aop.forge.contracts.types import BuildMode, ContractType

Severity = Literal["error", "warning"]
T = TypeVar("T")
NONE = "none"

_USED_PATH = re.compile(
    r"\b(?:reads?|writes?|calls?|loads?|sends?|gets?|posts?|puts?|patch|delete)\b[^`.\n]{0,40}`(?:[A-Z]+ )?(/[^`\s]*)`",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"\{[^{}/]*\}|:[A-Za-z_]\w*|<[^<>/]*>")
_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset("the and with for one from that this via over none using use simple small plain".split())


class Contradiction(Struct, frozen=True, kw_only=True):
    """Two things that cannot both be true."""

    severity: Severity
    """`error`, or `warning` where a person should look."""
    contracts: tuple[str, ...]
    """The contracts that disagree; `answers` stands for the anchor."""
    description: str
    """The contradiction, in a sentence."""


class _Batch(Struct, frozen=True):
    """The contracts of a project that could be read."""

    read: Mapping[ContractType, ReadContract]
    anchor: Mapping[str, str]

    def text(self, contract_type: ContractType) -> str:
        found = self.read.get(contract_type)
        return "" if found is None else found.text

    def content(self, contract_type: ContractType, shape: type[T]) -> T | None:
        found = self.read.get(contract_type)
        return found.content if found is not None and isinstance(found.content, shape) else None


def contradictions_in(
    contracts: Mapping[ContractType, str], mode: BuildMode, anchor: Mapping[str, str]
) -> tuple[Contradiction, ...]:
    """Return all contradictions, errors first; a contract that its reader refuses is one."""
    read: dict[ContractType, ReadContract] = {}
    found: list[Contradiction] = []
    for contract_type, text in contracts.items():
        try:
            read[contract_type] = read_contract(contract_type, text, mode)
        except ContractRefused as refused:
            found.append(_error([contract_type], refused.message))
    batch = _Batch(read, anchor)
    for check in _CHECKS:
        found += check(batch)
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda each: each.severity != "error"))


def same_path(path: str) -> str:
    """Return a path in the form in which two of them are compared: `{id}`, `:id` and `<id>` are the same."""
    bare = path.split("?", 1)[0].split("#", 1)[0]
    return _PARAMETER.sub("{}", bare).rstrip("/") or "/"


def _error(contracts: Sequence[str], description: str) -> Contradiction:
    return Contradiction(severity="error", contracts=tuple(map(str, contracts)), description=description)


def _warning(contracts: Sequence[str], description: str) -> Contradiction:
    return Contradiction(severity="warning", contracts=tuple(map(str, contracts)), description=description)


def _stack_against_anchor(batch: _Batch) -> Iterator[Contradiction]:
    stack = batch.text(ContractType.STACK)
    if not stack:
        return
    for name, chosen in batch.anchor.items():
        kinds = ("backend", "language") if name == "backend" else (name,)
        for kind in kinds:
            wanted, named = technologies_in(kind, chosen), technologies_in(kind, stack)
            others = ", ".join(sorted(named - wanted))
            instead = f"; it names {others}" if others and kind != "language" else ""
            for missing in sorted(wanted - named):
                yield _error(
                    ["answers", ContractType.STACK],
                    f"The answers chose {missing} ({name}); stack does not name it{instead}.",
                )
            if chosen.strip().casefold() == NONE and named and name in ("database", "frontend"):
                yield _error(["answers", ContractType.STACK], f"The answers chose no {name}; stack names {others}.")
        if not _names_known(name, chosen) and not _shares_words(chosen, stack):
            yield _warning(
                ["answers", ContractType.STACK],
                f"The answers chose {quoted(chosen)} ({name}); stack is silent.",
            )


def _others_against_anchor(batch: _Batch) -> Iterator[Contradiction]:
    for name in ("backend", "database", "frontend"):
        wanted = technologies_in(name, batch.anchor.get(name, ""))
        for contract_type in batch.read if wanted else ():
            named = technologies_in(name, batch.text(contract_type))
            others = sorted(named - wanted)
            if others and (contract_type is not ContractType.STACK or named & wanted):
                chosen = f"The answers chose {', '.join(sorted(wanted))} ({name})"
                contradiction = _warning if named & wanted else _error
                yield contradiction(["answers", contract_type], f"{chosen}; {contract_type} names {', '.join(others)}.")


def _auth_against_anchor(batch: _Batch) -> Iterator[Contradiction]:
    physics, auth = batch.content(ContractType.PHYSICS, Physics), batch.anchor.get("auth", "").strip().casefold()
    if physics is None or not auth or not physics.endpoints:
        return
    closed = [each for each in physics.endpoints if each.auth.casefold() != NONE]
    if auth == NONE and closed:
        first = closed[0]
        yield _error(
            ["answers", ContractType.PHYSICS],
            f"The answers chose no sign-in; {first.method} `{first.path}` demands {quoted(first.auth)}.",
        )
    elif auth != NONE and not closed:
        yield _error(
            ["answers", ContractType.PHYSICS],
            f"The answers chose {quoted(auth)}; no path of physics demands a sign-in.",
        )


def _database_against_schema(batch: _Batch) -> Iterator[Contradiction]:
    schema, database = batch.content(ContractType.SCHEMA, Schema), batch.anchor.get("database", "").strip().casefold()
    if schema is None or not database:
        return
    if database == NONE and schema.tables:
        yield _error(
            ["answers", ContractType.SCHEMA],
            f"The answers chose no database; schema has the table `{schema.tables[0].name}`.",
        )
    elif database != NONE and not schema.tables:
        yield _error(["answers", ContractType.SCHEMA], f"The answers chose {quoted(database)}; schema has no tables.")


def _references(batch: _Batch) -> Iterator[Contradiction]:
    schema = batch.content(ContractType.SCHEMA, Schema)
    known = {table.name.casefold() for table in schema.tables} if schema else set()
    for table in schema.tables if schema else ():
        for other in table.references():
            if other.casefold() not in known:
                text = f"The table `{table.name}` refers to `{other}`, which does not exist."
                yield _error([ContractType.SCHEMA], text)


def _coverage(batch: _Batch) -> Iterator[Contradiction]:
    schema, phases = batch.content(ContractType.SCHEMA, Schema), batch.content(ContractType.PHASES, Phases)
    if schema is None or phases is None:
        return
    both = [ContractType.SCHEMA, ContractType.PHASES]
    known = {table.name.casefold(): table.name for table in schema.tables}
    covered = [(name, phase.number) for phase in phases.phases for name in phase.schema_coverage]
    for name, number in covered:
        if name.casefold() not in known:
            yield _error(both, f"Phase {number} covers the table `{name}`, which schema does not have.")
    for name in sorted(known.keys() - {name.casefold() for name, _ in covered}):
        yield _warning(both, f"No phase covers the table `{known[name]}`.")


def _shapes(batch: _Batch) -> Iterator[Contradiction]:
    physics = batch.content(ContractType.PHYSICS, Physics)
    for endpoint in physics.endpoints if physics else ():
        for name in endpoint.shapes:
            if physics and name not in physics.schemas:
                yield _error(
                    [ContractType.PHYSICS],
                    f"{endpoint.method} `{endpoint.path}` uses `{name}`, which `schemas` does not have.",
                )


def _paths_without_phase(batch: _Batch) -> Iterator[Contradiction]:
    physics, phases = batch.content(ContractType.PHYSICS, Physics), batch.text(ContractType.PHASES).casefold()
    for path in dict.fromkeys(each.path for each in physics.endpoints) if physics and phases else ():
        fixed = [part.casefold() for part in path.split("/") if part and not _PARAMETER.fullmatch(part)]
        if fixed and not any(word in phases for word in (fixed[-1], fixed[-1].removesuffix("s"))):
            yield _warning([ContractType.PHYSICS, ContractType.PHASES], f"No phase delivers `{path}`.")


def _pages(batch: _Batch) -> Iterator[Contradiction]:
    physics, ui = batch.content(ContractType.PHYSICS, Physics), batch.text(ContractType.UI)
    if physics is not None:
        known = {same_path(each.path) for each in physics.endpoints}
        for path in dict.fromkeys(_USED_PATH.findall(ui)):
            if same_path(path) not in known:
                yield _error(
                    [ContractType.UI, ContractType.PHYSICS], f"The UI uses {quoted(path)}, which physics does not have."
                )


def _layers(batch: _Batch) -> Iterator[Contradiction]:
    boundaries, stack = batch.content(ContractType.BOUNDARIES, Boundaries), batch.text(ContractType.STACK)
    languages = languages_in(stack)
    for layer in boundaries.layers if boundaries else ():
        wanted = LANGUAGES_OF_SUFFIX.get(layer.glob.rsplit(".", 1)[-1], ())
        if stack and languages and wanted and not languages.intersection(wanted):
            yield _error(
                [ContractType.BOUNDARIES, ContractType.STACK],
                f"The layer {quoted(layer.name)} holds `{layer.glob}`; stack names {', '.join(sorted(languages))}.",
            )
    for first, second in _mutual(boundaries):
        yield _error(
            [ContractType.BOUNDARIES], f"The layers {quoted(first)} and {quoted(second)} may import each other."
        )


def _mutual(boundaries: Boundaries | None) -> Iterator[tuple[str, str]]:
    allowed = {layer.name: layer.may_import or () for layer in boundaries.layers} if boundaries else {}
    for name, others in allowed.items():
        yield from ((name, other) for other in others if name < other and name in allowed.get(other, ()))


def _directive(batch: _Batch) -> Iterator[Contradiction]:
    directive = batch.content(ContractType.BUILDER_DIRECTIVE, Directive)
    if directive is None:
        return
    phases = batch.content(ContractType.PHASES, Phases)
    numbers = tuple(phase.number for phase in phases.phases) if phases else directive.settings.phase_order
    if directive.settings.phase_order != numbers:
        yield _error(
            [ContractType.BUILDER_DIRECTIVE, ContractType.PHASES],
            f"The builder directive orders {len(directive.settings.phase_order)} phases; phases has {len(numbers)}.",
        )
    languages = languages_in(batch.text(ContractType.STACK))
    for command in directive.settings.verify:
        wanted = LANGUAGES_OF_PROGRAM.get(command[0], ())
        if languages and wanted and not languages.intersection(wanted):
            yield _warning(
                [ContractType.BUILDER_DIRECTIVE, ContractType.STACK],
                f"{quoted(' '.join(command))} verifies a phase; stack names {', '.join(sorted(languages))}.",
            )


def _titles(batch: _Batch) -> Iterator[Contradiction]:
    names: dict[str, ContractType] = {}
    for contract_type, contract in batch.read.items():
        title = contract.text.lstrip("\n").split("\n", 1)[0].removeprefix("# ")
        if " — " in title and contract.text.lstrip("\n").startswith("# "):
            names.setdefault(title.rsplit(" — ", 1)[0].strip().casefold(), contract_type)
    if len(names) > 1:
        yield _warning(
            list(names.values()), f"The contracts name the project differently: {', '.join(map(quoted, names))}."
        )


def _names_known(name: str, chosen: str) -> bool:
    kinds = ("backend", "language") if name == "backend" else (name,)
    return chosen.strip().casefold() == NONE or any(technologies_in(kind, chosen) for kind in kinds if kind in KINDS)


def _shares_words(chosen: str, text: str) -> bool:
    words = set(_WORD.findall(chosen.casefold())) - _COMMON
    return not words or bool(words.intersection(_WORD.findall(text.casefold())))


_CHECKS: tuple[Callable[[_Batch], Iterator[Contradiction]], ...] = (
    _stack_against_anchor,
    _others_against_anchor,
    _auth_against_anchor,
    _database_against_schema,
    _references,
    _coverage,
    _shapes,
    _paths_without_phase,
    _pages,
    _layers,
    _directive,
    _titles,
)
