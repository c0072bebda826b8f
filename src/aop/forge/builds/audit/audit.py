"""Audit: every check of a build on the tree as it is now; none is a constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aop.core.errors import Fault, Refusal
from aop.forge.builds.audit.audit_verdicts import AuditCheck, not_computed
from aop.forge.builds.audit.checks.code_checks import check_boundaries, check_secrets, check_syntax
from aop.forge.builds.audit.checks.dependency_checks import check_dependencies
from aop.forge.builds.audit.checks.history_checks import check_authorisation, check_diff_log, check_ledger
from aop.forge.builds.audit.checks.route_checks import check_routes
from aop.forge.builds.audit.checks.run_checks import check_order, check_tests
from aop.forge.builds.audit.checks.scope_checks import check_evidence, check_minimal_diff, check_scope
from aop.forge.builds.audit.subject import AuditSubject, Claims
from aop.forge.builds.documents import BuildCycle
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot

CHECKS: Mapping[str, Callable[[AuditSubject], AuditCheck]] = {
    "A0": check_syntax,
    "A1": check_scope,
    "A2": check_minimal_diff,
    "A3": check_evidence,
    "A4": check_boundaries,
    "A5": check_diff_log,
    "A6": check_authorisation,
    "A7": check_order,
    "A8": check_tests,
    "A9": check_dependencies,
    "W1": check_secrets,
    "W2": check_ledger,
    "W3": check_routes,
}


def audit_of(
    call: Call, view: Snapshot, cycle: BuildCycle, state: FeatureState, claims: Claims | None = None
) -> tuple[AuditCheck, ...]:
    """Return all checks on the tree of a build.

    `claims` are the paths, or the reasons, that a sign-off gives for each deliverable of the current phase.
    """
    return audited(AuditSubject(call, view, cycle, state, claims))


def audited(subject: AuditSubject) -> tuple[AuditCheck, ...]:
    """Return all checks on a subject that was read already."""
    return tuple(_computed(code, check, subject) for code, check in CHECKS.items())


def _computed(code: str, check: Callable[[AuditSubject], AuditCheck], subject: AuditSubject) -> AuditCheck:
    try:
        return check(subject)
    except (Refusal, Fault) as problem:
        return not_computed(code, str(problem))
