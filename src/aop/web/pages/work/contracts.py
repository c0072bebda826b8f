"""Contracts page: the nine contracts of a project, their versions, and drift."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from aop.core.errors import UnknownRoute
from aop.forge.contracts.outline import outline_of, section_of
from aop.forge.contracts.types import ContractType
from aop.web.pages.frame import Visit
from aop.web.review_view import rows_of
from aop.web.streams import number_of


def contracts_facts(visit: Visit) -> dict[str, Any]:
    """Return every project with its contracts, or the one of the address. Raises: ToolRefused."""
    wanted = visit.path.get("project_id")
    names = [wanted] if wanted else [each["project_id"] for each in visit.ask("forge.project_list")["projects"]]
    return {
        "projects": [visit.ask("forge.project_show", {"project_id": each}) for each in names],
        "is_one": wanted is not None,
    }


def drift_facts(visit: Visit) -> dict[str, Any]:
    """Return what the newest commit keeps of the contracts of a project, and what it does not. Raises: ToolRefused."""
    which = {"project_id": visit.path["project_id"]}
    report = visit.ask("forge.check", {**which, "ref": visit.query.get("ref") or "HEAD"})
    ranks = {"violated": 0, "unknown": 1, "accepted": 2, "holds": 3}
    clauses = sorted(report["clauses"], key=lambda each: ranks[each["verdict"]])
    # The name of a clause comes from a contract: no shell may read it as anything but a word.
    accept = f"aop forge check {which['project_id']} --accept "
    return {
        "project_id": which["project_id"],
        "report": report,
        "clauses": [(each, accept + shlex.quote(each["clause"])) for each in clauses],
    }


def contract_facts(visit: Visit) -> dict[str, Any]:
    """Return one contract: a version of it, one of its sections, or a difference. Raises: ToolRefused, Refusal."""
    name = visit.path["contract_type"]
    if name not in set(ContractType):
        raise UnknownRoute("There is no such contract.")
    which = {"project_id": visit.path["project_id"], "contract_type": name}
    version = number_of(visit.query.get("version"))
    contract = visit.ask("forge.contract_show", which if version is None else {**which, "number": version})
    history = visit.ask("forge.contract_history", which)
    section = visit.query.get("section", "")
    text = section_of(ContractType(name), contract["content"], section) if section else contract["content"]
    return {
        "contract": contract,
        "types": list(ContractType),
        "versions": history["versions"][::-1],
        "newest": history["versions"][-1]["version"],
        "outline": outline_of(ContractType(name), contract["content"]),
        "section": section,
        "text": text,
        "diff": _difference(visit, which),
    }


def _difference(visit: Visit, which: Mapping[str, str]) -> dict[str, Any] | None:
    before, after = number_of(visit.query.get("before")), number_of(visit.query.get("after"))
    if before is None or after is None:
        return None
    found = visit.ask("forge.contract_diff", {**which, "before": before, "after": after})
    rows = [row for row in rows_of(found["text"].splitlines()) if row.mark]
    return {"before": found["before"], "after": found["after"], "rows": rows}
