"""Verdicts of an audit: one for each check, with the proof that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

AuditVerdict = Literal["PASS", "FAIL", "WARN", "ERROR"]

NAMES: Mapping[str, str] = {
    "A0": "syntax",
    "A1": "scope",
    "A2": "minimal diff",
    "A3": "evidence complete",
    "A4": "boundary compliance",
    "A5": "diff log",
    "A6": "authorisation",
    "A7": "order of verification",
    "A8": "tests",
    "A9": "dependencies",
    "W1": "secrets",
    "W2": "ledger integrity",
    "W3": "API routes covered",
}
"""The checks of an audit, in their order."""

MOST_PROOFS = 20


class AuditCheck(Struct, frozen=True, kw_only=True):
    """One check of an audit."""

    code: str
    """Its stable code, `A0` to `A9` and `W1` to `W3`."""
    name: str
    """Its subject in words."""
    verdict: AuditVerdict
    """`PASS`, `FAIL`, `WARN`, or `ERROR` where it could not be computed."""
    proof: tuple[str, ...]
    """The facts that decide it: paths, lines, runs and figures."""


def judged(code: str, *, failures: Sequence[str] = (), doubts: Sequence[str] = (), facts: Sequence[str]) -> AuditCheck:
    """Return a check: failures decide it first, then doubts; the facts are shown in any case."""
    verdict: AuditVerdict = "FAIL" if failures else "WARN" if doubts else "PASS"
    proof = (*_some(failures), *_some(doubts), *facts)
    return AuditCheck(code=code, name=NAMES[code], verdict=verdict, proof=proof)


def not_computed(code: str, why: str) -> AuditCheck:
    """Return a check that nothing can be said about."""
    return AuditCheck(code=code, name=NAMES[code], verdict="ERROR", proof=(why,))


def _some(lines: Sequence[str]) -> tuple[str, ...]:
    more = (f"... and {len(lines) - MOST_PROOFS} more",) if len(lines) > MOST_PROOFS else ()
    return (*lines[:MOST_PROOFS], *more)
