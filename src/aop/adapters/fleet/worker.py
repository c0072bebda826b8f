"""Worker: claims runs of the platform's queues, and carries them out here."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.adapters.fleet.clones import Clones
from aop.adapters.fleet.connections import platform_address, refuse_pooler
from aop.adapters.fleet.liveness import Liveness, WorkerIdentity
from aop.adapters.fleet.log_parts import LogParts
from aop.adapters.fleet.platform import Platform
from aop.adapters.fleet.worker_engine import WorkerEngine
from aop.adapters.git.repository import Repository
from aop.adapters.machine.clock import new_id
from aop.adapters.processes.orphans import end_orphans
from aop.adapters.storage.record.choice import DATABASE
from aop.core.errors import Fault, Json
from aop.core.ids import CommitId, ObjectId
from aop.kernel.gates.execution.gate_orders import GateAnswer, GateOrder, perform_order
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.processes import Command, CommandResult, Processes

LARGEST_ANSWER = 16 << 20
_LOGS = ".aop/orders"
_CUT_OFF = "this worker lost the database, and the step reaches the network"

CallFor = Callable[[Repository, str, str], Call]
"""Returns the call in which a run is carried out: in a clone, with its base branch, under the id of the run."""


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """A worker as it is asked for."""

    queues: Sequence[str]
    places: int
    labels: Mapping[str, str]
    cache: Path


class OrderPayload(Struct, frozen=True, kw_only=True):
    """A run of the queue `gates`, as a leader sends it."""

    order: Mapping[str, Any]
    hub: str
    ref: str
    commit: str
    repository: str


class Worker:
    """One worker: it claims runs, carries them out, and ends when told to."""

    def __init__(
        self, environ: Mapping[str, str], options: WorkerOptions, call_for: CallFor, say: Callable[[str], None]
    ) -> None:
        url = platform_address(environ)
        _check_platform(url)
        self._say = say
        self._call_for = call_for
        self._options = options
        host = socket.gethostname()
        identity = WorkerIdentity(
            id=f"{host}-{os.urandom(4).hex()}",
            host=host,
            queues=options.queues,
            places=options.places,
            labels=options.labels,
        )
        self.liveness = Liveness(url, identity)
        self._clones = Clones(options.cache, without_database(environ))
        self._engine = WorkerEngine(url, identity.id, options.queues, options.places, lambda: self.liveness.workers)
        self._ended = threading.Event()

    def run(self) -> None:
        """Work until told to end, or until the platform has runs of another shape."""
        self.liveness.start()
        self._options.cache.mkdir(parents=True, exist_ok=True)
        for clone in self._options.cache.iterdir():
            end_orphans(clone)
        self._engine.start({"gate": self._perform})
        self.liveness.on_queued, self.liveness.busy = self._engine.claims.wake, self._engine.claims.busy
        self.liveness.forget, self.liveness.judges = self._engine.forget, True
        self._engine.claims.wake()
        self._say(f"Worker {self.liveness.id} takes {', '.join(self._options.queues)}, {self._options.places} at once.")
        while not self._ended.wait(0.2):
            if self.liveness.drains or self.liveness.platform_runs is not None:
                break
        self._engine.drain()
        self.liveness.leave()
        self._engine.close()

    def end(self) -> None:
        """End as soon as the active runs have ended."""
        self._ended.set()

    def _perform(self, run: str, payload: Mapping[str, Json]) -> Mapping[str, Json]:
        """Carry out an order; once more if the database was lost while a step reached the network."""
        ordered = msgspec.convert(payload, OrderPayload)
        while True:
            answer = self._carry_out(run, ordered)
            if answer is not None:
                plain: Mapping[str, Json] = msgspec.to_builtins(answer)
                if len(msgspec.json.encode(plain)) > LARGEST_ANSWER:
                    raise Fault(f"The answer is larger than {LARGEST_ANSWER >> 20} MiB.")
                return plain
            while self.liveness.is_cut_off():
                # Either the database is back, or this process ends.
                threading.Event().wait(0.1)

    def _carry_out(self, run: str, ordered: OrderPayload) -> GateAnswer | None:
        """Return the answer to an order; None if it was broken off."""
        order = msgspec.convert(ordered.order, GateOrder)
        commit = CommitId(ObjectId(ordered.commit))
        repository = self._clones.have(ordered.repository, ordered.hub, ordered.ref, commit)
        base = order.plan.policy.worktree.base_branch
        self._clones.follow_base(repository, base, order.plan.subject.base_commit)
        own, folder = _with_places(order, self._options.places), f"{_LOGS}/{new_id('order')}"
        call = self._call_for(repository, base, run)
        processes = FencedProcesses(call.kernel.processes, self.liveness.is_cut_off)
        kernel = msgspec.structs.replace(call.kernel, processes=processes)
        call = msgspec.structs.replace(call, kernel=kernel)
        (repository.root / folder).mkdir(parents=True)
        try:
            with LogParts(repository.root / folder, order.plan.log_folder, self._sender(run)) as logs:
                answer = perform_order(call, own, commit, worker=self.liveness.id, logs=folder)
                if processes.is_broken_off:
                    return None
                logs.finish()
                return answer
        finally:
            shutil.rmtree(repository.root / folder, ignore_errors=True)

    def _sender(self, run: str) -> Callable[[str, int, bytes], bool]:
        return lambda path, start, content: self._engine.send_log(run, path, start, content)


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


def without_database(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no step and no git sees the address of the database."""
    return {name: value for name, value in environ.items() if name != DATABASE}


def _check_platform(url: str) -> None:
    """Check what a worker relies on. Raises: DatabaseUnavailable, PoolerUnsupported, PlatformMissing, WorkerVersion."""
    with Platform(url) as platform:
        refuse_pooler(platform.connection, url)
        platform.check()


def _with_places(order: GateOrder, places: int) -> GateOrder:
    """Return an order whose gates take the places of this worker, not those of the leader's machine."""
    policy = order.plan.policy
    supervisor = msgspec.structs.replace(policy.supervisor, max_parallel_gate_runs=places)
    plan = msgspec.structs.replace(order.plan, policy=msgspec.structs.replace(policy, supervisor=supervisor))
    return msgspec.structs.replace(order, plan=plan)
