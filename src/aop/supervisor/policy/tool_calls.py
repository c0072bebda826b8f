"""Tool calls: the calls that judge an answer, and the status that they report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from msgspec.structs import replace

from aop.core.roles import Role
from aop.kernel.record.documents.features import Status
from aop.supervisor.policy.conflicts import FOLLOW_BASE
from aop.supervisor.policy.state import Action, AwaitMerged, CallTool, FeatureRun
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, ToolResult

TELL_STATUS = frozenset(
    {
        *("feature.init", "feature.begin_anew", "feature.state_patch"),
        *("plan.submit", "plan.update", "gates.run", FOLLOW_BASE),
    }
)
"""The tools whose answer has the feature's status."""


def judging_call(role: Role, answer: PlanSubmission | PatchProposal | Note) -> CallTool:
    """Return the call that judges a proposal, or notes a text for people."""
    match answer:
        case Note():
            return CallTool(role=role, tool="feature.log_append", arguments={"note": answer.note[:4000] or "-"})
        case PatchProposal():
            arguments: dict[str, Any] = {"unified_diff": answer.unified_diff}
            if answer.patch_blob is not None:
                arguments["patch_blob"] = answer.patch_blob
            return CallTool(role=role, tool="repo.apply_patch", arguments=arguments)
        case PlanSubmission():
            arguments = {"plan_json": answer.plan}
            if answer.obligations is not None:
                arguments["obligations"] = answer.obligations
            if "revision_of" not in answer.plan:
                return CallTool(role=Role.PLANNER, tool="plan.submit", arguments=arguments)
            arguments["expected_plan_version"] = answer.plan["revision_of"]
            return CallTool(role=Role.PLANNER, tool="plan.update", arguments=arguments)
        case _:
            assert_never(answer)


def lock_call(resource: str) -> CallTool:
    """Return the call that acquires a lock; it does not wait: a waiting feature gives its place to another one."""
    arguments = {"resource": resource, "wait_timeout_seconds": 0}
    return CallTool(role=Role.ORCHESTRATOR, tool="locks.acquire", arguments=arguments)


def unblock(answer: Mapping[str, Any]) -> Action:
    """Continue a blocked feature that was requested again; one with a prerequisite waits for it."""
    if answer["front_matter"].get("waits_for"):
        return AwaitMerged(features=tuple(answer["front_matter"]["waits_for"]))
    before = answer["front_matter"].get("blocked_from") or Status.PLANNING
    # A feature that was ready is proven again: no feature becomes ready by hand.
    status = Status.QA if before == Status.READY_TO_MERGE else before
    patch = {"status": status, "status_reason": "A person asked for this feature again."}
    arguments = {"expected_version": answer["version"], "patch": patch}
    return CallTool(role=Role.ORCHESTRATOR, tool="feature.state_patch", arguments=arguments)


def with_reported_status(run: FeatureRun, result: ToolResult) -> FeatureRun:
    """Take over the status that a tool reports: the kernel's record is authoritative."""
    if not result.ok or result.tool not in TELL_STATUS:
        return run
    return replace(run, status=Status(result.data["status"]))
