"""Clauses: single statements of a contract, each with a verdict and its proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.errors import NoContracts
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.shapes.boundaries import Boundaries
from aop.forge.contracts.shapes.physics import Physics
from aop.forge.contracts.shapes.schema import Schema
from aop.forge.contracts.types import BuildMode, ContractType, file_name
from aop.forge.scan.inventory import Inventory

ClauseKind = Literal["pattern", "import", "route", "table"]
Verdict = Literal["holds", "violated", "unknown", "accepted"]
MOST_PROOFS = 100

Lines = Callable[[str], Sequence[str] | None]
"""Returns the lines of a file of the commit; None for what is not text, or too large."""


class Proof(Struct, frozen=True, kw_only=True):
    """A line that decides a clause; for something that is missing, the line of the contract that demands it."""

    file: str
    """The path from the root of the repository, or the file name of a contract."""
    line: int
    """The line, from 1."""
    text: str = ""
    """The line itself; secrets are masked."""
    key: str = ""
    """The file and the SHA-256 of the line: what an acceptance is bound to."""


class Clause(Struct, frozen=True, kw_only=True):
    """One statement of a contract, and whether the code keeps it."""

    clause: str
    """Its id, which stays the same as long as the statement does."""
    kind: ClauseKind
    """`pattern` and `import` are boundaries, `route` is physics, `table` is schema."""
    statement: str
    """The clause in a sentence."""
    verdict: Verdict
    """`holds`, `violated`, `unknown`, or `accepted` for a violation that a person or the contract accepts."""
    proofs: tuple[Proof, ...] = ()
    """The lines that decide it."""
    detail: str = ""
    """Why it is unknown or accepted."""


class CheckedContracts(Struct, frozen=True, kw_only=True):
    """The contracts that code can be checked against."""

    boundaries: Boundaries | None
    physics: Physics | None
    schema: Schema | None
    texts: Mapping[ContractType, str]

    def proof_of(self, contract_type: ContractType, line: int) -> Proof:
        """Return a line of a contract as the proof for something that is missing."""
        lines = self.texts[contract_type].split("\n")
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        return proof_at(file_name(contract_type), line, text)


class Code(Struct, frozen=True, kw_only=True):
    """The code at one commit."""

    inventory: Inventory
    paths: tuple[str, ...]
    """Every plain file."""
    lines: Lines
    unfollowed: Mapping[str, bool] = {}
    """Links and submodules, which are not followed, and whether each may lead to more than one file."""

    def proof(self, file: str, line: int) -> Proof:
        """Return a line of a file as proof."""
        lines = self.lines(file) or ()
        return proof_at(file, line, lines[line - 1] if 0 < line <= len(lines) else "")


def proof_at(file: str, line: int, text: str) -> Proof:
    """Return a proof with its key, which survives a move of the line within its file."""
    return Proof(
        file=file, line=line, text=text.strip(), key=f"{file}:{sha256_hex(text.strip().encode('utf-8', 'replace'))}"
    )


def decided(proofs: Sequence[Proof], *, unknown: str = "") -> Verdict:
    """Return the verdict on a clause that these lines violate; without any, it holds unless a reason says otherwise."""
    if proofs:
        return "violated"
    return "unknown" if unknown else "holds"


def contracts_to_check(texts: Mapping[ContractType, str], mode: BuildMode) -> CheckedContracts:
    """Read the contracts that have clauses. Raises: NoContracts if there is none, ContractRefused."""
    checked = (ContractType.BOUNDARIES, ContractType.PHYSICS, ContractType.SCHEMA)
    read = {each: read_contract(each, texts[each], mode).content for each in checked if each in texts}
    if not read:
        raise NoContracts(
            "There is no boundaries, physics or schema contract to check.",
            hint="Write them with `aop forge export PROJECT DIR`, or generate them with `aop forge generate PROJECT`.",
        )
    boundaries, physics, schema = (read.get(each) for each in checked)
    return CheckedContracts(
        boundaries=boundaries if isinstance(boundaries, Boundaries) else None,
        physics=physics if isinstance(physics, Physics) else None,
        schema=schema if isinstance(schema, Schema) else None,
        texts=texts,
    )
