"""Gate runs: the orders of the queue `gates`, carried out on this worker."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.fleet.runs.log_parts import LogParts
from aop.adapters.fleet.runs.run_context import RunContext, plain_answer
from aop.adapters.git.repository import Repository
from aop.adapters.machine.clock import new_id
from aop.core.errors import Json
from aop.core.ids import CommitId, ObjectId
from aop.kernel.gates.execution.gate_orders import GateAnswer, GateOrder, perform_order
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.processes import Command, CommandResult, Processes

_LOGS = ".aop/orders"
_CUT_OFF = "this worker lost the database, and the step reaches the network"

CallFor = Callable[[Repository, str, str], Call]
"""Returns the call in which a run is carried out: in a clone, with its base branch, under the id of the run."""


class GatePayload(Struct, frozen=True, kw_only=True):
    """A run of the queue `gates`, as a leader sends it."""

    order: Mapping[str, Any]
    hub: str
    ref: str
    commit: str
    repository: str


class GateRuns:
    """Carries out the gate runs of one worker."""

    def __init__(self, context: RunContext, call_for: CallFor) -> None:
        self._context = context
        self._call_for = call_for

    def perform(self, run: str, payload: Mapping[str, Json]) -> Mapping[str, Json]:
        """Carry out an order; once more if the database was lost while a step reached the network."""
        ordered = msgspec.convert(payload, GatePayload)
        while True:
            answer = self._carry_out(run, ordered)
            if answer is not None:
                return plain_answer(answer)
            while self._context.liveness.is_cut_off():
                # Either the database is back, or this process ends.
                threading.Event().wait(0.1)

    def _carry_out(self, run: str, ordered: GatePayload) -> GateAnswer | None:
        """Return the answer to an order; None if it was broken off."""
        order = msgspec.convert(ordered.order, GateOrder)
        commit, clones = CommitId(ObjectId(ordered.commit)), self._context.clones
        repository = clones.have(ordered.repository, ordered.hub, ordered.ref, commit)
        base = order.plan.policy.worktree.base_branch
        clones.follow_base(repository, base, order.plan.subject.base_commit)
        own, folder = _with_places(order, self._context.places), f"{_LOGS}/{new_id('order')}"
        call = self._call_for(repository, base, run)
        processes = FencedProcesses(call.kernel.processes, self._context.liveness.is_cut_off)
        kernel = msgspec.structs.replace(call.kernel, processes=processes)
        call = msgspec.structs.replace(call, kernel=kernel)
        (repository.root / folder).mkdir(parents=True)
        try:
            with LogParts(repository.root / folder, order.plan.log_folder, self._sender(run)) as logs:
                answer = perform_order(call, own, commit, worker=self._context.liveness.id, logs=folder)
                if processes.is_broken_off:
                    return None
                logs.finish()
                return answer
        finally:
            shutil.rmtree(repository.root / folder, ignore_errors=True)

    def _sender(self, run: str) -> Callable[[str, int, bytes], bool]:
        return lambda path, start, content: self._context.engine.send_log(run, path, start, content)


class FencedProcesses:
    """Processes of a worker: those that reach the network end when others may begin them soon."""

    def __init__(self, inner: Processes, is_cut_off: Callable[[], bool]) -> None:
        self._inner = inner
        self._is_cut_off = is_cut_off
        self.is_broken_off = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, command: Command) -> CommandResult:
        """Run a command to its end, or until it is cut off."""
        if command.network == "none":
            return self._inner.run(command)
        return self._inner.run(msgspec.structs.replace(command, ends_early=self._reason))

    def _reason(self, _silent_seconds: float) -> str:
        self.is_broken_off |= self._is_cut_off()
        return _CUT_OFF if self.is_broken_off else ""


def _with_places(order: GateOrder, places: int) -> GateOrder:
    """Return an order whose gates take the places of this worker, not those of the leader's machine."""
    policy = order.plan.policy
    supervisor = msgspec.structs.replace(policy.supervisor, max_parallel_gate_runs=places)
    plan = msgspec.structs.replace(order.plan, policy=msgspec.structs.replace(policy, supervisor=supervisor))
    return msgspec.structs.replace(order, plan=plan)
