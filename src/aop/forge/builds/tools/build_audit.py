"""Tool `forge.build_audit`: every check on the tree of a build as it is now."""

from __future__ import annotations

from msgspec import Struct

from aop.forge.builds.audit.audit import audit_of
from aop.forge.builds.audit.audit_verdicts import AuditCheck
from aop.forge.builds.cycle.lookup import the_cycle
from aop.forge.builds.tools.cycles import BuildArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool, feature_named
from aop.kernel.gateway.role_sets import COORDINATORS


class BuildAudit(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    phase: int
    """The phase that is being built; deliverables and routes up to it are due."""
    tree: str
    """The tree that was audited."""
    passed: bool
    """Whether no check failed, and each could be computed."""
    checks: tuple[AuditCheck, ...]
    """A0 to A9 and W1 to W3, in this order."""


def audit(call: Call, arguments: BuildArguments) -> Outcome:
    """Compute the audit of a build; nothing is stored."""
    with call.kernel.record.read() as view:
        cycle = the_cycle(view, arguments.build_id, call.principal)
        state = feature_named(view, cycle.build_id)
        checks = audit_of(call, view, cycle, state)
    return BuildAudit(
        build_id=cycle.build_id,
        phase=cycle.current.number,
        tree=state.tree,
        passed=not any(check.verdict in ("FAIL", "ERROR") for check in checks),
        checks=checks,
    )


TOOLS = (
    Tool(
        name="forge.build_audit",
        summary="Audit the tree of a build: syntax, scope, evidence, boundaries, history, tests, secrets, routes.",
        arguments=BuildArguments,
        output=BuildAudit,
        roles=COORDINATORS,
        run=audit,
        person_only=True,
    ),
)
