"""Worktree extras: copies, links, ports and set-up commands beside the tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from aop.core.errors import WorktreeSetupFailed
from aop.core.ids import FeatureId, TreeId
from aop.core.paths import globs
from aop.core.text.counts import count
from aop.core.text.json import canonical_json
from aop.kernel.config.policy import ExecutionRules, Policy
from aop.kernel.config.worktrees import SetupCommand, WorktreeRules
from aop.kernel.features.trees import is_at_or_below, is_free_in
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.ports.git import FileMode, GitObjects
from aop.kernel.ports.processes import Command, Ending
from aop.kernel.record.documents.base import Document, next_version, revise
from aop.kernel.record.documents.features import Index
from aop.kernel.record.port import Transaction
from aop.kernel.record.projections import folder_of

INCLUDED = ".worktreeinclude"
"""The file that names what to copy as other tools for worktrees read it: patterns as in `.gitignore`."""
LAST_PORT = 65_535
LOG_TAIL_BYTES = 2000
LONGEST_DATABASE_NAME = 63
"""The longest that PostgreSQL takes."""

Environment = tuple[tuple[str, str], ...]


class PortSlots(Document, frozen=True, kw_only=True):
    """The ports of each feature: slot N is the Nth group of ports."""

    kind: ClassVar[str] = "slots"
    key: ClassVar[str] = "features"

    by_feature: Mapping[str, int] = {}


class SetupProgress(Document, frozen=True, kw_only=True):
    """The set-up commands that have run in a feature's worktree."""

    kind: ClassVar[str] = "readiness"

    feature_id: FeatureId
    worktree: str
    """The identity of the worktree; a new one is not set up."""
    done: tuple[str, ...]
    """A digest of each command, together with all before it."""


class CheckoutExtras(Struct, frozen=True, kw_only=True):
    """Environment and readable paths for the processes in a checkout."""

    env: Environment = ()
    readable: tuple[str, ...] = ()
    """The targets of the links."""


def allocate_ports(
    tx: Transaction, feature_id: FeatureId, rules: WorktreeRules, is_free: Callable[[int], bool]
) -> None:
    """Give a feature ports that no active feature has, unless it has some. Raises: WorktreeSetupFailed."""
    known = tx.get(PortSlots, PortSlots.key)
    if known is not None and feature_id in known.by_feature:
        return
    index = tx.get(Index, Index.key) or Index(version=1)
    living = {*index.active, *index.blocked}
    taken = {name: slot for name, slot in (known.by_feature if known else {}).items() if name in living}
    groups = (LAST_PORT - rules.first_port) // max(1, rules.ports)
    unused = (slot for slot in range(groups) if slot not in taken.values())
    slot = next((slot for slot in unused if all(map(is_free, ports_of(slot, rules)))), None)
    if slot is None:
        needed = count(rules.ports, "port")
        raise WorktreeSetupFailed(f"There are not {needed} free for `{feature_id}`.", feature_id=feature_id)
    tx.put(PortSlots(version=next_version(known), by_feature={**taken, feature_id: slot}), PortSlots.key)


def release_ports(tx: Transaction, feature_id: FeatureId) -> None:
    """Free the ports of a deleted feature."""
    known = tx.get(PortSlots, PortSlots.key)
    if known is not None and feature_id in known.by_feature:
        others = {name: slot for name, slot in known.by_feature.items() if name != feature_id}
        tx.put(revise(known, by_feature=others), PortSlots.key)
    tx.remove(SetupProgress, feature_id)


def ports_of(slot: int, rules: WorktreeRules) -> range:
    """Return the ports of a slot."""
    return range(rules.first_port + slot * rules.ports, rules.first_port + (slot + 1) * rules.ports)


def environment_of(kernel: Kernel, feature_id: FeatureId) -> Environment:
    """Return the variables that name a feature's ports and database; none without a feature."""
    with kernel.record.read() as view:
        known = view.get(PortSlots, PortSlots.key)
    slot = known.by_feature.get(feature_id) if known else None
    if slot is None:
        return ()
    ports = ports_of(slot, kernel.config().policy.worktree)
    database = f"aop_{slot}_{feature_id.replace('-', '_')}"[:LONGEST_DATABASE_NAME]
    return (*((f"AOP_PORT_{number}", str(port)) for number, port in enumerate(ports)), ("AOP_DATABASE", database))


def place_extras(kernel: Kernel, tree: TreeId, folder: Path, rules: WorktreeRules) -> tuple[str, ...]:
    """Put copies and links where the tree has nothing; return the targets of the links. Raises: WorktreeSetupFailed."""
    patterns = _included_patterns(kernel, rules)
    if not (rules.copy or rules.link or patterns):
        return ()
    objects, extras = kernel.git.objects, kernel.worktree_extras
    wanted = sorted({*extras.untracked(rules.copy), *(extras.included(patterns) if patterns else ())})
    copies = [path for path in wanted if is_free_in(objects, tree, path)]
    links = [path for path in rules.link if is_free_in(objects, tree, path)]
    return extras.place(folder, copies=copies, links=links)


def _included_patterns(kernel: Kernel, rules: WorktreeRules) -> bytes:
    """Return the `.worktreeinclude` of the base branch; a feature's own would let an agent have any file copied."""
    head = kernel.git.branches.head(rules.base_branch)
    entry = kernel.git.objects.entry(kernel.git.objects.tree_of(head), INCLUDED) if head else None
    is_file = entry is not None and entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)
    return kernel.git.objects.blob(entry.oid) if entry and is_file else b""


def set_up_checkout(
    call: Call, feature_id: FeatureId, tree: TreeId, folder: Path, policy: Policy, *, logs: str = ""
) -> CheckoutExtras:
    """Set up a checkout; commands that have run in a feature's worktree are left out. Raises: WorktreeSetupFailed.

    `logs` is the folder of the logs, from the root of the repository; empty for that of the feature.
    """
    kernel, rules = call.kernel, policy.worktree
    extras = CheckoutExtras(env=environment_of(kernel, feature_id), readable=place_extras(kernel, tree, folder, rules))
    wanted = _command_digests(kernel.git.objects, tree, rules.setup)
    is_own = folder == kernel.git.worktrees.path(feature_id)
    done = _finished_commands(kernel, feature_id, folder, wanted) if is_own else 0
    for number in range(done, len(wanted)):
        with kernel.locks.gate_slot(policy.supervisor.max_parallel_gate_runs):
            _run_setup_command(call, feature_id, number, folder, policy=policy, extras=extras, logs=logs)
        if is_own:
            _record_finished(
                call, feature_id, kernel.worktree_extras.identity(folder), wanted[: number + 1], rules.setup[number]
            )
    if is_own and done < len(wanted):
        # Changes that a command made to the tree, and files beside it, are not part of the feature.
        kernel.git.worktrees.discard_strays(feature_id, tree)
    return extras


def _command_digests(objects: GitObjects, tree: TreeId, commands: Sequence[SetupCommand]) -> tuple[str, ...]:
    """Return a digest for each command, of itself, its inputs and all commands before it."""
    entries = objects.entries(tree) if any(command.inputs for command in commands) else ()
    meanings: list[str] = []
    for command in commands:
        read = [f"{each.path} {each.oid}" for each in entries if _matches_any(command.inputs, each.path)]
        before = meanings[-1] if meanings else ""
        meanings.append(hashlib.sha256(canonical_json([before, list(command.cmd), read])).hexdigest())
    return tuple(meanings)


def _matches_any(patterns: Sequence[str], path: str) -> bool:
    return any(is_at_or_below(path, pattern) or globs.matches(pattern, path) for pattern in patterns)


def _finished_commands(kernel: Kernel, feature_id: FeatureId, folder: Path, wanted: Sequence[str]) -> int:
    """Return how many of the commands need not run again."""
    with kernel.record.read() as view:
        known = view.get(SetupProgress, feature_id)
    if known is None or known.worktree != kernel.worktree_extras.identity(folder):
        return 0
    pairs = zip(known.done, wanted, strict=False)
    return next((number for number, (was, now) in enumerate(pairs) if was != now), min(len(known.done), len(wanted)))


def _run_setup_command(
    call: Call, feature_id: FeatureId, number: int, folder: Path, *, policy: Policy, extras: CheckoutExtras, logs: str
) -> None:
    command = policy.worktree.setup[number]
    rules = msgspec.structs.replace(policy.execution, network=command.network or policy.execution.network)
    log_path = f"{logs or f'{folder_of(feature_id)}/logs'}/{call.kernel.new_id('setup')}-{number + 1}.log"
    call.report(f"{feature_id}: setting up its worktree: {' '.join(command.cmd)}")
    ended = call.kernel.processes.run(
        command_for(
            rules,
            extras,
            command.cmd,
            folder,
            log_path=call.kernel.files.root / log_path,
            timeout_seconds=command.timeout_seconds,
        )
    )
    if ended.ending is not Ending.EXITED or ended.exit_code:
        how = ended.problem or f"it ended with exit code {ended.exit_code}."
        raise WorktreeSetupFailed(
            f"A set-up command of `{feature_id}` failed: {how}",
            feature_id=feature_id,
            command=list(command.cmd),
            exit_code=ended.exit_code,
            log_path=log_path,
            log_tail=call.kernel.files.read_tail(log_path, limit=LOG_TAIL_BYTES).decode(errors="replace"),
        )


def command_for(
    rules: ExecutionRules,
    extras: CheckoutExtras,
    argv: tuple[str, ...],
    checkout: Path,
    *,
    log_path: Path,
    timeout_seconds: int | None,
    folder: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Command:
    """Return a command that runs in a folder of a checkout, under the limits and in the sandbox of the policy."""
    return Command(
        argv=argv,
        cwd=checkout / folder if folder else checkout,
        worktree=checkout,
        env=tuple(sorted({**dict(extras.env), **(env or {})}.items())),
        env_allowlist=rules.env_allowlist,
        timeout_seconds=float(timeout_seconds or rules.default_step_timeout_seconds),
        log_path=log_path,
        max_log_bytes=rules.max_log_bytes,
        sandbox=rules.sandbox,
        network=rules.network,
        readable=(*rules.sandbox_read, *extras.readable),
        writable=rules.sandbox_write,
        limits=rules.limits,
    )


def _record_finished(
    call: Call, feature_id: FeatureId, worktree: str, done: tuple[str, ...], command: SetupCommand
) -> None:
    with call.kernel.record.write() as tx:
        version = next_version(tx.get(SetupProgress, feature_id))
        tx.put(SetupProgress(version=version, feature_id=feature_id, worktree=worktree, done=done), feature_id)
        tx.append(call.event("worktree_set_up", feature_id, command=list(command.cmd)))
