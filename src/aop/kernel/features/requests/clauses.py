"""Clauses of a plan: the parts that a comment can be about, and their fate."""

from __future__ import annotations

from collections.abc import Mapping

from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.kernel.features.requests.line_fates import Fate
from aop.kernel.record.documents.plans import Plan

CLAUSE = "^(summary|(criterion|risk|file)-[1-9][0-9]{0,3})$"


def clauses_of(plan: Plan) -> Mapping[str, str]:
    """Return the text of each clause by its name: `summary`, `criterion-1`, `risk-1`, `file-1`."""
    files = [f"{kind} {path}" for kind in ("create", "modify", "delete") for path in getattr(plan.files, kind)]
    return {
        "summary": plan.summary,
        **_numbered("criterion", plan.acceptance_criteria),
        **_numbered("risk", plan.risk or ()),
        **_numbered("file", tuple(files)),
    }


def clause_fate(request: ChangeRequest, clauses: Mapping[str, str]) -> tuple[Fate, str]:
    """Return what became of a commented clause, and its name now; an empty one if it cannot be placed."""
    kind, _, number = request.clause.partition("-")
    same = [name for name, text in clauses.items() if name.partition("-")[0] == kind and text == request.quoted]
    if same:
        return "unchanged", min(same, key=lambda name: abs(int(name.partition("-")[2] or 0) - int(number or 0)))
    return ("changed" if request.clause in clauses else "gone"), ""


def _numbered(name: str, texts: tuple[str, ...]) -> dict[str, str]:
    return {f"{name}-{number}": text for number, text in enumerate(texts, 1)}
