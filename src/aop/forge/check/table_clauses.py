"""Table clauses: the tables of the code against the schema contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aop.forge.check.clauses import CheckedContracts, Clause, Code, Proof, decided
from aop.forge.check.unread_code import unread_for_tables
from aop.forge.contracts.shapes.schema import Schema, SchemaTable
from aop.forge.contracts.types import ContractType
from aop.forge.scan.routes import FoundTable, tables_of
from aop.forge.scan.unread_tables import unread_tables

MIGRATIONS = frozenset({"sql", "alembic"})
"""Sources in which a later file may add a column that an earlier one lacks."""
_BOOKKEEPING = frozenset({"alembic_version", "django_migrations", "schema_migrations", "flyway_schema_history"})


def table_clauses(schema: Schema, contracts: CheckedContracts, code: Code) -> Iterator[Clause]:
    """Judge each table of the contract, and the tables that it does not name."""
    found = tables_of(code.inventory)
    libraries = unread_tables(code.inventory)
    unread = unread_for_tables(code, contracts.boundaries) or (f"{libraries[0]}." if libraries else "")
    if not found:
        unread = "No table was found in the code; its definition may not be one that is read."
    for table in schema.tables:
        same = [each for each in found if _is_same(each.name, table.name)]
        yield _declared(table, same, unread, contracts, code)
    foreign = [
        each
        for each in found
        if each.name.casefold() not in _BOOKKEEPING
        and not any(_is_same(each.name, table.name) for table in schema.tables)
    ]
    proofs = [code.proof(each.file, each.line) for each in foreign]
    yield Clause(
        clause="schema.undeclared",
        kind="table",
        statement="Every table of the code is in schema",
        verdict=decided(proofs, unknown=unread),
        proofs=tuple(proofs),
        detail=", ".join(dict.fromkeys(each.name for each in foreign[:10])) or unread,
    )


def _declared(
    table: SchemaTable, same: Sequence[FoundTable], unread: str, contracts: CheckedContracts, code: Code
) -> Clause:
    unknown, proofs, detail = "", [], ""
    if not same and unread:
        unknown = unread
    elif not same:
        proofs = [contracts.proof_of(ContractType.SCHEMA, table.line)]
        detail = "No definition of it was found."
    else:
        proofs, detail, unknown = _compared(table, same, code)
    return Clause(
        clause=f"schema.{table.name}",
        kind="table",
        statement=f"The table {table.name} has the columns of schema",
        verdict=decided(proofs, unknown=unknown),
        proofs=tuple(proofs) or tuple(code.proof(each.file, each.line) for each in same),
        detail=detail or unknown,
    )


def _compared(table: SchemaTable, same: Sequence[FoundTable], code: Code) -> tuple[list[Proof], str, str]:
    """Return the definitions that differ from the contract, how, and why nothing can be said."""
    wanted = {column.name.casefold() for column in table.columns}
    known = {column.casefold() for each in same for column in each.columns}
    extra = [each for each in same if any(not _has(wanted, column.casefold()) for column in each.columns)]
    missing = sorted(column for column in wanted if not _has(known, column) and column != "id")
    is_model = any(each.columns and each.source not in MIGRATIONS for each in same)
    more = sorted(column for each in extra for column in each.columns if not _has(wanted, column.casefold()))
    if missing and (is_model or not known):
        if not known:
            return [], "", "The columns of its definition are not read."
        place = next(each for each in same if each.columns)
        return [code.proof(place.file, place.line)], f"It lacks {', '.join(missing)}.", ""
    if more:
        return (
            [code.proof(each.file, each.line) for each in extra],
            f"Schema lacks {', '.join(dict.fromkeys(more))}.",
            "",
        )
    late = f"{', '.join(missing)}: a later migration may add it." if missing else ""
    return [], "", late


def _is_same(found: str, wanted: str) -> bool:
    """Tell whether two names are one table; Django puts the name of its app before it."""
    name, other = found.casefold(), wanted.casefold().rpartition(".")[2]
    bare = name.rpartition(".")[2]
    one = other.removesuffix("s")
    return bare in (other, one) or bare.endswith((f"_{other}", f"_{one}"))


def _has(columns: set[str], name: str) -> bool:
    """Tell whether a column is there; a model may call `member_id` `member`."""
    return name in columns or f"{name}_id" in columns or name.removesuffix("_id") in columns
