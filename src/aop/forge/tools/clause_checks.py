"""Clause checks: `forge.check` judges code, `forge.accept` accepts a clause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from aop.core.errors import Json
from aop.core.ids import CommitId
from aop.forge.check.clauses import Clause, contracts_to_check
from aop.forge.check.code_files import code_at
from aop.forge.check.verdicts import CheckReport, clauses_of, keys_of, report_on, the_clause, with_acceptances
from aop.forge.projects.batches import contracts_in, the_newest_batch
from aop.forge.projects.documents import AcceptedClause, ForgeProject
from aop.forge.projects.owners import the_project
from aop.forge.scan.ports import scanner_of
from aop.forge.tools.projects import ProjectArguments
from aop.forge.tools.scans import Ref
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.port import Snapshot, Transaction

MOST_ACCEPTED = 1_000


class CheckCode(ProjectArguments, frozen=True, kw_only=True):
    ref: Ref = "HEAD"
    """A branch, a tag or a commit; its tree is read, never the checkout."""


class AcceptClause(CheckCode, frozen=True, kw_only=True):
    clause: Annotated[str, Meta(min_length=1, max_length=500)]
    """The clause, as `forge.check` names it."""


def check(call: Call, arguments: CheckCode) -> Outcome:
    """Judge every clause of a project's newest contracts on a commit."""
    commit, clauses = _judged(call, arguments)
    with call.kernel.record.read() as view:
        return _report(call, view, arguments, commit, clauses)


def accept(call: Call, arguments: AcceptClause) -> Outcome:
    """Accept a violated or unknown clause as it is at a commit; any other line is a violation again."""
    commit, clauses = _judged(call, arguments)
    clause = the_clause(clauses, arguments.clause)
    lines = keys_of(clause)[:MOST_ACCEPTED]

    def decide(tx: Transaction) -> Outcome:
        project = the_project(tx, arguments.project_id, call.principal)
        key = f"{project.project_id}/{clause.clause}"
        accepted = AcceptedClause(
            version=next_version(tx.get(AcceptedClause, key)),
            project_id=project.project_id,
            clause=clause.clause,
            commit=commit,
            lines=lines,
            accepted_by=call.principal.actor,
            accepted_at=call.kernel.now(),
        )
        tx.put(accepted, key)
        facts: dict[str, Json] = {"project_id": project.project_id, "clause": clause.clause, "commit": commit}
        tx.append(call.event("clause_accepted", None, **facts, lines=len(lines)))
        return _report(call, tx, arguments, commit, clauses)

    return call.commit(decide)


def _judged(call: Call, arguments: CheckCode) -> tuple[CommitId, Sequence[Clause]]:
    """Return the clauses of the newest contracts, judged on a commit. Raises: UnknownRef, FilesClosed, NoContracts."""
    with call.kernel.record.read() as view:
        project: ForgeProject = the_project(view, arguments.project_id, call.principal)
        batch = the_newest_batch(view, project)
        texts = {each.contract_type: each.content for each in contracts_in(view, batch)}
    contracts = contracts_to_check(texts, project.mode)
    scanner = scanner_of(call.kernel)
    commit = scanner.commit_named(arguments.ref)
    return commit, clauses_of(contracts, code_at(commit, scanner, call.kernel.git.objects, call.report))


def _report(
    call: Call, view: Snapshot, arguments: CheckCode, commit: CommitId, clauses: Sequence[Clause]
) -> CheckReport:
    project = the_project(view, arguments.project_id, call.principal)
    accepted = {each.clause: each.lines for each in view.all(AcceptedClause, f"{project.project_id}/")}
    return report_on(commit, with_acceptances(clauses, accepted), call.kernel.redact.mask_secrets)


TOOLS = (
    Tool(
        name="forge.check",
        summary="Test the code at a commit by the clauses of a project's contracts: boundaries, routes, tables.",
        arguments=CheckCode,
        output=CheckReport,
        roles=COORDINATORS,
        run=check,
        person_only=True,
    ),
    Tool(
        name="forge.accept",
        summary="Accept a violated or unknown clause as it is at a commit, until the line changes.",
        arguments=AcceptClause,
        output=CheckReport,
        roles=COORDINATORS,
        run=accept,
        mutates=True,
        person_only=True,
    ),
)
