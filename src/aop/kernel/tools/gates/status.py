"""Tool `gates.status`: a gate run by the operation id of its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import OperationInProgress, UnknownOperation
from aop.core.ids import OPERATION_ID_PATTERN, OperationId
from aop.kernel.config.gates import Mode
from aop.kernel.gates.progress import GATES_RUN, Progress
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.record.port import Operation


class GateStatusArguments(FeatureArguments, frozen=True, kw_only=True):
    operation_id: Annotated[str, Meta(pattern=OPERATION_ID_PATTERN)]
    """The operation id of the `gates.run` call."""


class GateStatus(Struct, frozen=True, kw_only=True):
    feature_id: str
    operation_id: str
    """The id that was asked for."""
    mode: Mode
    state: Literal["running", "finished", "interrupted"]
    """`interrupted`: the process that ran them is gone; `gates.run` with the same operation id runs them again."""
    progress: tuple[str, ...]
    """The progress lines so far, oldest first."""
    answer: Mapping[str, Any] | None
    """The full answer of `gates.run`; null while there is none."""


def status(call: Call, arguments: GateStatusArguments) -> Outcome:
    """Return the state of a gate run, without waiting for it."""
    with call.kernel.record.read() as view:
        the_feature(view, arguments)
    operation, alive = _operation_and_liveness(call, OperationId(arguments.operation_id))
    if operation is None or operation.tool != GATES_RUN or operation.intent is None:
        raise _unknown_run(arguments)
    progress = msgspec.convert(operation.intent, Progress)
    if progress.feature_id != arguments.feature_id:
        raise _unknown_run(arguments)
    state: Literal["running", "interrupted"] = "running" if alive else "interrupted"
    return GateStatus(
        feature_id=arguments.feature_id,
        operation_id=operation.operation_id,
        mode=progress.mode,
        state=state if operation.answer is None else "finished",
        progress=progress.lines,
        answer=operation.answer,
    )


def _operation_and_liveness(call: Call, operation_id: OperationId) -> tuple[Operation | None, bool]:
    """Return an operation, and whether a process still holds its lock."""
    try:
        with call.kernel.locks.operation(operation_id, wait_seconds=0.0):
            return _in_ledger(call, operation_id), False
    except OperationInProgress:
        return _in_ledger(call, operation_id), True


def _in_ledger(call: Call, operation_id: OperationId) -> Operation | None:
    with call.kernel.record.read() as view:
        return view.operation(operation_id)


def _unknown_run(arguments: GateStatusArguments) -> UnknownOperation:
    return UnknownOperation(
        f"There is no gate run of `{arguments.feature_id}` under the operation id `{arguments.operation_id}`.",
        feature_id=arguments.feature_id,
        operation_id=arguments.operation_id,
    )


TOOLS = (
    Tool(
        name="gates.status",
        summary="Return the state of a gate run, by the operation id of its call: running, finished with its answer, or"
        " interrupted.",
        arguments=GateStatusArguments,
        output=GateStatus,
        roles=READERS,
        run=status,
    ),
)
