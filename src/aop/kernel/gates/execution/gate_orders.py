"""Gate orders: gate runs that a worker carries out on another machine.

An order is a gate plan, and the answer a gate run: both are values. A worker has no record, so what depends on it
is added here, after the answer, as are the moments by the clock of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.clock import timestamp
from aop.core.digests import sha256_hex
from aop.core.errors import HubUnavailable, Json, WorkerFailed
from aop.core.ids import CommitId
from aop.kernel.features.installation import CheckoutExtras
from aop.kernel.features.lifecycle import LIVING, require_status, stopped_reason
from aop.kernel.features.trees import is_free_in
from aop.kernel.features.worktree_extras import INCLUDED, environment_of, included_patterns
from aop.kernel.gates.execution.flaky import with_known_failure
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import ExecutedGates, execute_gates, machine_identity
from aop.kernel.gateway.calls import Call, Kernel, feature_named
from aop.kernel.ports.fleet import GateWorkers, LogPart
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, TestBaseline

_WHEN = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of the commit, so that a repeated order has the same one."""


class GateOrder(Struct, frozen=True, kw_only=True):
    """A gate run as it goes to a worker."""

    plan: GatePlan
    baseline: TestBaseline | None = None
    passed_on: str = ""
    """The machine on which the same gates passed before: a worker on such a machine does not run them again."""


class GateAnswer(Struct, frozen=True, kw_only=True):
    """A gate run as it comes back; without one, the earlier pass counts."""

    worker: str
    executed: ExecutedGates | None
    seconds: float = 0.0
    """How long it took, by the worker's clock, which may show any time of day."""
    lacks: tuple[str, ...] = ()
    """The paths of `worktree.link` that the worker's own folder of the repository does not have."""


def execute_on_worker(
    call: Call,
    workers: GateWorkers,
    plan: GatePlan,
    *,
    baseline: TestBaseline | None = None,
    passed: GateRun | None = None,
) -> ExecutedGates | None:
    """Have a worker run the gates, and write its logs here; None, after a line that says why, if they must run here.

    `passed` is the earlier pass: returned if the worker's machine is the one that it passed on.
    Raises: InvalidStatusTransition if the feature was stopped while they waited for a worker.
    """
    why = _stays_here(call.kernel, plan) or workers.unavailable()
    try:
        executed = None if why else _ordered(call, workers, plan, baseline=baseline, passed=passed)
    except (HubUnavailable, WorkerFailed) as refusal:
        executed, why = None, refusal.message
    if executed is None:
        with call.kernel.record.read() as view:
            require_status(feature_named(view, plan.feature_id), *LIVING, to="run gates")
        why = why or "every worker has gone"
        call.report(f"{plan.feature_id}: {plan.mode} gates run on this machine: {why}")
    return executed


def _stays_here(kernel: Kernel, plan: GatePlan) -> str:
    """Return what of a gate run cannot travel; empty if all of it can."""
    rules = plan.policy.worktree
    needed = [f"worktree.{name}" for name in ("copy", "setup") if getattr(rules, name)]
    needed += [INCLUDED] if included_patterns(kernel, rules) else []
    if needed:
        return f"`{needed[0]}` needs this checkout"
    return "it needs files of this machine" if plan.inputs or plan.separates_errors else ""


def _ordered(
    call: Call, workers: GateWorkers, plan: GatePlan, *, baseline: TestBaseline | None, passed: GateRun | None
) -> ExecutedGates | None:
    kernel = call.kernel
    environment = environment_of(kernel, plan.feature_id, plan.policy.worktree)
    plan = msgspec.structs.replace(plan, extras=CheckoutExtras(env=environment))
    order = GateOrder(plan=plan, baseline=baseline, passed_on=passed.machine if passed else "")
    commit = _commit_of(kernel, plan)
    value: Mapping[str, Json] = msgspec.to_builtins(order)
    key = f"{call.operation()}.{sha256_hex(msgspec.json.encode([commit, value]))[:16]}"
    logs = _LogCopies(kernel, plan)
    stopped = partial(stopped_reason, kernel, plan.feature_id)
    answered = workers.run(value, commit, key=key, report=call.report, on_log=logs.take, stopped=stopped)
    if answered is None:
        return None
    try:
        answer = msgspec.convert(answered, GateAnswer)
    except msgspec.ValidationError as error:
        raise WorkerFailed(f"A worker's answer is not a gate run: {error}") from error
    if answer.lacks:
        raise WorkerFailed(f"the worker `{answer.worker}` has no `{answer.lacks[0]}`, which `worktree.link` names")
    if answer.executed is None:
        return None if passed is None else ExecutedGates(run=passed, names=None)
    return _received(kernel, plan, answer.executed, answer, logs)


def perform_order(call: Call, order: GateOrder, commit: CommitId, *, worker: str, logs: str) -> GateAnswer:
    """Carry out an order on this machine, in a fresh checkout, with its logs in a folder of its own.

    Raises: as `execute_gates`.
    """
    kernel, plan = call.kernel, order.plan
    begun = kernel.clock.boot_seconds()
    if lacks := _absent_links(kernel, plan):
        return GateAnswer(worker=worker, executed=None, lacks=lacks)
    if order.passed_on and machine_identity(call, plan) == order.passed_on:
        return GateAnswer(worker=worker, executed=None)
    with kernel.git.worktrees.scratch(commit) as checkout:
        own = msgspec.structs.replace(plan, logs=logs)
        executed = execute_gates(call, own, checkout, baseline=order.baseline)
    steps = tuple(_with_log_in(step, plan.log_folder) for step in executed.run.steps)
    executed = msgspec.structs.replace(executed, run=msgspec.structs.replace(executed.run, steps=steps))
    return GateAnswer(worker=worker, executed=executed, seconds=kernel.clock.boot_seconds() - begun)


def _absent_links(kernel: Kernel, plan: GatePlan) -> tuple[str, ...]:
    """Return what steps would find on the leader's machine by a link, and not here."""
    wanted = [path for path in plan.policy.worktree.link if is_free_in(kernel.git.objects, plan.subject.tree, path)]
    found = kernel.worktree_extras.marks(kernel.files.root, wanted, whole=False)
    return tuple(path for path in wanted if path.rstrip("/") not in found)


def _with_log_in(step: StepResult, folder: str) -> StepResult:
    return msgspec.structs.replace(step, log_path=f"{folder}/{step.log_path.rpartition('/')[2]}")


def _commit_of(kernel: Kernel, plan: GatePlan) -> CommitId:
    """Return a commit of the plan's tree on its base: the same one each time."""
    objects, subject = kernel.git.objects, plan.subject
    if objects.tree_of(subject.base_commit) == subject.tree:
        return subject.base_commit
    return objects.commit(subject.tree, [subject.base_commit], f"Gates of {plan.feature_id}\n", when=_WHEN)


def _received(
    kernel: Kernel, plan: GatePlan, executed: ExecutedGates, answer: GateAnswer, logs: _LogCopies
) -> ExecutedGates:
    """Return an answer as this machine records it: its own clock, its own record, its own copies of the logs."""
    run, ended = executed.run, kernel.clock.now()
    if (run.subject, run.feature_id, run.mode) != (plan.subject, plan.feature_id, plan.mode):
        raise WorkerFailed(f"A worker answered to other gates than those of `{plan.feature_id}`.")
    run = msgspec.structs.replace(
        run,
        worker=answer.worker,
        config_hash=plan.config_hash,
        steps=tuple(map(logs.proven, run.steps)),
        started_at=timestamp(ended - timedelta(seconds=max(0.0, answer.seconds))),
        finished_at=timestamp(ended),
    )
    with kernel.record.read() as view:
        run = with_known_failure(view, run, plan.policy)
    return msgspec.structs.replace(executed, run=run)


class _LogCopies:
    """The logs of a run elsewhere, as files of this machine."""

    def __init__(self, kernel: Kernel, plan: GatePlan) -> None:
        self._kernel = kernel
        self._folder = Path(plan.log_folder)
        self._most = plan.policy.execution.max_log_bytes
        self._contents: dict[str, bytearray] = {}

    def take(self, part: LogPart) -> None:
        """Append to a copy, if it is a log of this run, and the part that comes next."""
        path, content = Path(part.path), self._contents.setdefault(part.path, bytearray())
        is_own = path.parent == self._folder and path.suffix == ".log" and path.name.startswith("gate-")
        if is_own and part.offset == len(content) <= self._most:
            content += part.content
            self._kernel.files.write(part.path, bytes(content), durable=False)

    def proven(self, step: StepResult) -> StepResult:
        """Return a step with the digest of its log here, which lacks the secrets of this machine too."""
        content = bytes(self._contents.get(step.log_path, b""))
        if sha256_hex(content) != step.log_sha256:
            raise WorkerFailed(f"The log `{step.log_path}` of a worker did not arrive whole.")
        cleaned = self._kernel.redact(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if cleaned != content or step.log_path not in self._contents:
            self._kernel.files.write(step.log_path, cleaned, durable=False)
        return msgspec.structs.replace(step, log_sha256=sha256_hex(cleaned))
