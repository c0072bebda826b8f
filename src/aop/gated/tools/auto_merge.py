"""Automatic merge: the kernel's merge without approval, by the policy."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.errors import MergeConflict, Refusal
from aop.core.ids import OperationId
from aop.core.roles import Role
from aop.gated.machine.position import plan_of
from aop.gated.machine.state import Phase
from aop.gated.session.base_branch import latest_base
from aop.gated.session.session import workflow_of
from aop.kernel.gateway.calls import Call
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Operation
from aop.kernel.tools.feature.merge import TOOLS as MERGE_TOOLS
from aop.kernel.tools.feature.merge import MergeArguments, ready_to_merge

MERGE = next(tool for tool in MERGE_TOOLS if tool.run is ready_to_merge)


def merge_if_permitted(call: Call) -> None:
    """Merge a ready pull request if it needs no approval (C-01). Raises: refusals of a merge, but a conflict."""
    if call.kernel.config().policy.merge_policy.require_user_approval:
        return
    with call.kernel.record.read() as view:
        known = workflow_of(view, call.principal)
        state = view.get(FeatureState, known.feature_id)
    if state is None or state.status is not Status.READY_TO_MERGE:
        return
    if known.workflow.status not in (Phase.PLAN_UPDATED, Phase.MERGING_BRANCH):
        return
    if latest_base(call.kernel).is_diverged:
        return
    operation = OperationId(f"{call.operation()}-merge")
    with call.kernel.record.write() as tx:
        if tx.operation(operation) is None:
            entry = Operation(operation_id=operation, tool=MERGE.name, payload_hash="", actor=call.principal.actor)
            tx.enter_operation(entry)
    system = Principal(role=Role.SYSTEM, actor=call.principal.actor)
    message = plan_of(known.workflow).pr_title
    try:
        ready_to_merge(
            replace(call, tool=MERGE, principal=system, operation_id=operation),
            MergeArguments(feature_id=known.feature_id, commit_message=message),
        )
    except Refusal as refusal:
        # As in the gateway: a refused operation did not happen, and is not repeated.
        with call.kernel.record.write() as tx:
            tx.withdraw_operation(operation)
        if not isinstance(refusal, MergeConflict):
            raise
