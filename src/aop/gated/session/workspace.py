"""Workspace of a workflow: the judged tree, and the files of the server."""

from __future__ import annotations

from aop.gated.machine.position import GET_TASK, SUBMIT_WORK
from aop.gated.machine.state import Phase
from aop.gated.session.documents import ACTIVE_PR, ORCHESTRATION_STATE, GatedWorkflow
from aop.gated.session.session import workflow_of
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.workspaces import Workspace
from aop.kernel.record.port import Snapshot

WORKING = frozenset(
    {Phase.INITIALIZING, Phase.EXECUTING_TDD, Phase.DEBUGGING, Phase.REPLANNING, Phase.FINALIZE_COMPLETE}
)
"""The phases with something to write."""


def workspace_of(view: Snapshot, principal: Principal) -> Workspace:
    """Return the workspace of a caller's workflow. Raises: NoWorkflow, InvalidArguments."""
    return workspace_in(workflow_of(view, principal))


def workspace_in(known: GatedWorkflow) -> Workspace:
    """Return the workspace of a workflow."""
    is_open = known.workflow.status in WORKING and not known.workflow.escalated
    return Workspace(
        feature_id=known.feature_id,
        tree=known.tree,
        version=known.version,
        own=frozenset({ACTIVE_PR, ORCHESTRATION_STATE}),
        files=known.files,
        next_call=f"safe_patch or {SUBMIT_WORK}" if is_open else GET_TASK,
    )
