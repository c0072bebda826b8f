"""Verdicts on a commit: every clause, with what people accepted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from aop.core.digests import sha256_hex
from aop.core.errors import NothingToAccept, UnknownClause
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.forge.check.clauses import MOST_PROOFS, CheckedContracts, Clause, Code, Proof
from aop.forge.check.layer_clauses import layer_clauses
from aop.forge.check.route_clauses import route_clauses
from aop.forge.check.table_clauses import table_clauses

LONGEST_TEXT = 200
_LINE = re.compile(r":\d+")
_STATES = {"holds": "holds", "accepted": "is accepted by the contract"}


class CheckReport(Struct, frozen=True, kw_only=True):
    """All clauses of a project at one commit."""

    commit: str
    """The commit that was checked; empty for files of a folder."""
    holds: int
    """The number of clauses that the code keeps."""
    violated: int
    """The number of clauses that it violates."""
    unknown: int
    """The number of clauses that cannot be decided."""
    accepted: int
    """The number of violations that were accepted, and have not changed since."""
    clauses: tuple[Clause, ...]
    """Every clause, in the order of the contracts."""


def clauses_of(contracts: CheckedContracts, code: Code) -> tuple[Clause, ...]:
    """Judge every clause."""
    found: list[Clause] = []
    if contracts.boundaries is not None:
        found += layer_clauses(contracts.boundaries, code)
    if contracts.physics is not None:
        found += route_clauses(contracts.physics, contracts, code)
    if contracts.schema is not None:
        found += table_clauses(contracts.schema, contracts, code)
    return tuple(found)


def the_clause(clauses: Sequence[Clause], name: str) -> Clause:
    """Return a clause that can be accepted. Raises: UnknownClause, NothingToAccept."""
    clause = next((each for each in clauses if each.clause == name), None)
    if clause is None:
        names = [each.clause for each in clauses]
        raise UnknownClause(f"There is no clause `{visible(name[:80])}`.{did_you_mean(name, names)}")
    if clause.verdict not in ("violated", "unknown"):
        raise NothingToAccept(f"The clause `{clause.clause}` {_STATES[clause.verdict]}.", clause=clause.clause)
    return clause


def with_acceptances(clauses: Sequence[Clause], accepted: Mapping[str, Sequence[str]]) -> tuple[Clause, ...]:
    """Return the clauses with accepted ones marked; `accepted` has the keys of the lines for each clause."""
    return tuple(_with_acceptance(each, Counter(accepted.get(each.clause, ()))) for each in clauses)


def keys_of(clause: Clause) -> tuple[str, ...]:
    """Return what an acceptance of a clause is bound to; a line that is there twice counts twice."""
    return (_unknown_key(clause),) if clause.verdict == "unknown" else tuple(proof.key for proof in clause.proofs)


def _unknown_key(clause: Clause) -> str:
    """Return what stands in an acceptance for a clause that could not be decided: the reason, whatever its line."""
    return f"unknown:{sha256_hex(_LINE.sub('', clause.detail).encode('utf-8', 'replace'))}"


def report_on(commit: str, clauses: Sequence[Clause], mask: Callable[[str], str]) -> CheckReport:
    """Count the verdicts, and mask the secrets in the proofs."""
    counts = Counter(each.verdict for each in clauses)
    return CheckReport(
        commit=commit,
        holds=counts["holds"],
        violated=counts["violated"],
        unknown=counts["unknown"],
        accepted=counts["accepted"],
        clauses=tuple(
            replace(each, proofs=tuple(_shown(proof, mask) for proof in each.proofs[:MOST_PROOFS])) for each in clauses
        ),
    )


def _shown(proof: Proof, mask: Callable[[str], str]) -> Proof:
    return replace(proof, text=mask(proof.text)[:LONGEST_TEXT])


def _with_acceptance(clause: Clause, keys: Counter[str]) -> Clause:
    if not keys or clause.verdict not in ("violated", "unknown"):
        return clause
    seen: Counter[str] = Counter()
    left = []
    for proof in clause.proofs:
        seen[proof.key] += 1
        if seen[proof.key] > keys[proof.key]:
            left.append(proof)
    if clause.verdict == "unknown":
        return (
            replace(clause, verdict="accepted", detail=f"{clause.detail} Accepted.")
            if _unknown_key(clause) in keys
            else clause
        )
    if left:
        return replace(clause, proofs=tuple(left))
    return replace(clause, verdict="accepted", detail="Accepted, and unchanged since.")
