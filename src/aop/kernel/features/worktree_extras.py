"""Worktree extras: copies, links, ports and set-up commands beside the tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from aop.core.errors import Json, SetupNeedsNetwork, WorktreeSetupFailed
from aop.core.exit_codes import exit_words
from aop.core.ids import FeatureId, TreeId
from aop.core.paths import globs
from aop.core.redaction.redactor import mask_json
from aop.core.text.counts import count, list_some
from aop.core.text.json import canonical_json
from aop.kernel.config.policy import ExecutionRules, Policy
from aop.kernel.config.worktrees import SetupCommand, WorktreeRules
from aop.kernel.features.installation import (
    CheckoutExtras,
    Environment,
    SetupProgress,
    SetupTarget,
    intact_progress,
    record_finished,
    with_installed,
)
from aop.kernel.features.opened_paths import NO, YES
from aop.kernel.features.questions import put_question
from aop.kernel.features.trees import is_at_or_below, is_free_in
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.ports.git import FileMode, GitObjects
from aop.kernel.ports.processes import Command, Ending
from aop.kernel.record.documents.base import Document, next_version, revise
from aop.kernel.record.documents.features import Index
from aop.kernel.record.documents.questions import Question, close_question
from aop.kernel.record.port import Transaction
from aop.kernel.record.projections import folder_of

INCLUDED = ".worktreeinclude"
"""The file that names what to copy as other tools for worktrees read it: patterns as in `.gitignore`."""
BUILD_FILES = (
    *("**/setup.py", "**/setup.cfg", "**/pyproject.toml", "**/hatch_build.py", "**/requirements*.txt"),
    *("**/package.json", "**/.npmrc", "**/.yarnrc*", "**/.pnpmfile.*", "**/pnpm-workspace.yaml", "**/binding.gyp"),
    *("**/bunfig.toml", "**/build.rs", "**/.cargo/**", "**/Makefile", "**/CMakeLists.txt", "**/*.lock"),
    *("**/package-lock.json", "**/npm-shrinkwrap.json", "**/pnpm-lock.yaml", "**/bun.lockb"),
    *("**/pip.conf", "**/uv.toml", "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth"),
)
"""The files that decide what installers run and fetch, also where no `inputs` name them: a feature may add one."""
LAST_PORT = 65_535
LOG_TAIL_BYTES = 2000
LONGEST_DATABASE_NAME = 63
"""The longest that PostgreSQL takes."""


class PortSlots(Document, frozen=True, kw_only=True):
    """The ports of each feature: slot N is the Nth group of ports."""

    kind: ClassVar[str] = "slots"
    key: ClassVar[str] = "features"

    by_feature: Mapping[str, int] = {}


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


def environment_of(kernel: Kernel, feature_id: FeatureId, rules: WorktreeRules) -> Environment:
    """Return the variables that name a feature's ports and database; none without a feature."""
    with kernel.record.read() as view:
        known = view.get(PortSlots, PortSlots.key)
    slot = known.by_feature.get(feature_id) if known else None
    if slot is None:
        return ()
    ports = ports_of(slot, rules)
    database = f"aop_{slot}_{feature_id.replace('-', '_')}"[:LONGEST_DATABASE_NAME]
    return (*((f"AOP_PORT_{number}", str(port)) for number, port in enumerate(ports)), ("AOP_DATABASE", database))


def place_extras(kernel: Kernel, tree: TreeId, folder: Path, rules: WorktreeRules) -> tuple[str, ...]:
    """Put copies and links where the tree has nothing; return the targets of the links. Raises: WorktreeSetupFailed."""
    patterns = included_patterns(kernel, rules)
    if not (rules.copy or rules.link or patterns):
        return ()
    objects, extras = kernel.git.objects, kernel.worktree_extras
    wanted = sorted({*extras.untracked(rules.copy), *(extras.included(patterns) if patterns else ())})
    copies = [path for path in wanted if is_free_in(objects, tree, path)]
    links = [path for path in rules.link if is_free_in(objects, tree, path)]
    return extras.place(folder, copies=copies, links=links)


def included_patterns(kernel: Kernel, rules: WorktreeRules) -> bytes:
    """Return the `.worktreeinclude` of the base branch; a feature's own would let an agent have any file copied."""
    head = kernel.git.branches.head(rules.base_branch)
    entry = kernel.git.objects.entry(kernel.git.objects.tree_of(head), INCLUDED) if head else None
    is_file = entry is not None and entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)
    return kernel.git.objects.blob(entry.oid) if entry and is_file else b""


def set_up_checkout(call: Call, target: SetupTarget, policy: Policy) -> CheckoutExtras:
    """Set up a checkout; commands that have run in a feature's worktree are left out.

    Raises: WorktreeSetupFailed, SetupNeedsNetwork.
    """
    kernel, rules = call.kernel, policy.worktree
    feature_id, tree, folder = target.feature_id, target.tree, target.folder
    is_own = folder == kernel.git.worktrees.path(feature_id)
    wanted = _command_digests(kernel.git.objects, tree, rules.setup)
    known = intact_progress(kernel, target, policy) if is_own else None
    done = _finished_commands(known, wanted)
    if is_own and (target.exact or done < len(wanted)):
        # Ignored files that an earlier run left could steer this one.
        kernel.git.worktrees.renew(folder, tree, keep=tuple(known.installed) if known else ())
    environment = environment_of(kernel, feature_id, rules)
    extras = CheckoutExtras(env=environment, readable=place_extras(kernel, tree, folder, rules))
    for number in range(done, len(wanted)):
        with kernel.locks.gate_slot(policy.supervisor.max_parallel_gate_runs):
            _run_setup_command(call, target, number, policy=policy, extras=extras)
        if is_own and number == len(wanted) - 1:
            # Changes that a command made to the tree, and files beside it, are not part of the feature.
            kernel.git.worktrees.discard_strays(feature_id, tree)
        if is_own:
            record_finished(call, target, wanted[: number + 1], rules.setup[number])
    return with_installed(kernel, target, extras, policy) if target.exact and wanted else extras


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


def _finished_commands(known: SetupProgress | None, wanted: Sequence[str]) -> int:
    """Return how many of the commands need not run again."""
    done = known.done if known else ()
    pairs = zip(done, wanted, strict=False)
    return next((number for number, (was, now) in enumerate(pairs) if was != now), min(len(done), len(wanted)))


def _run_setup_command(call: Call, target: SetupTarget, number: int, *, policy: Policy, extras: CheckoutExtras) -> None:
    kernel, command = call.kernel, policy.worktree.setup[number]
    changed, said = _closed_network(kernel, target, policy, number)
    network = "none" if changed else command.network or policy.execution.network
    log_path = f"{target.logs or f'{folder_of(target.feature_id)}/logs'}/{kernel.new_id('setup')}-{number + 1}.log"
    call.report(f"{target.feature_id}: setting up its worktree: {' '.join(command.cmd)}")
    ended = kernel.processes.run(
        command_for(
            msgspec.structs.replace(policy.execution, network=network),
            extras,
            command.cmd,
            target.folder,
            log_path=kernel.files.root / log_path,
            timeout_seconds=command.timeout_seconds,
        )
    )
    if ended.ending is Ending.EXITED and not ended.exit_code:
        return
    how = ended.problem or f"it ended with {exit_words(ended.exit_code)}."
    facts: dict[str, Json] = {
        "feature_id": target.feature_id,
        "command": list(command.cmd),
        "exit_code": ended.exit_code,
        "log_path": log_path,
        "log_tail": kernel.files.read_tail(log_path, limit=LOG_TAIL_BYTES).decode(errors="replace"),
    }
    if changed and (said is None or said.is_open):
        raise _needs_network(call, target, command, changed, how=how, facts=facts)
    without = ", without the network that a person refused it" if changed else ""
    why = f"A set-up command of `{target.feature_id}` failed{without}: {how}"
    raise WorktreeSetupFailed(why, hint=WorktreeSetupFailed.hint, **facts)


def _closed_network(
    kernel: Kernel, target: SetupTarget, policy: Policy, number: int
) -> tuple[tuple[str, ...], Question | None]:
    """Return the changed inputs that close the network to a command, and the question about them.

    The command runs code of the tree. Where the feature changed it, nobody has reviewed what it would send away.
    """
    commands = policy.worktree.setup[: number + 1]
    if commands[-1].network != "host" or policy.execution.network == "host":
        return (), None
    changes = kernel.git.objects.changes(kernel.git.objects.tree_of(target.base_commit), target.tree)
    changed = tuple(each.path for each in changes if any(_may_read(command, each.path) for command in commands))
    with kernel.record.read() as view:
        said = next((each for each in view.all(Question) if _is_about(each, target)), None) if changed else None
    return ((), said) if said is not None and said.answer == YES else (changed, said)


def _may_read(command: SetupCommand, path: str) -> bool:
    """Tell whether a file can decide what a command does; every one can, unless its inputs are named."""
    if command.network == "host" and not command.inputs:
        return True
    return _matches_any((*command.inputs, *BUILD_FILES), path) or path in (
        word.removeprefix("./") for word in command.cmd
    )


def _is_about(question: Question, target: SetupTarget) -> bool:
    return question.feature_id == target.feature_id and question.sets_up == target.tree and not question.closed_because


def _needs_network(
    call: Call,
    target: SetupTarget,
    command: SetupCommand,
    changed: Sequence[str],
    *,
    how: str,
    facts: Mapping[str, Json],
) -> SetupNeedsNetwork:
    """Ask a person, once for each tree, and return the refusal that names the question."""
    words, files = " ".join(command.cmd), list_some([f"`{path}`" for path in changed])
    text = (
        f"Setting up the worktree of `{target.feature_id}` failed without the network: `{words}`: {how} The network is"
        f" closed because the feature changed {files}. `{YES}` lets this command, and all code of this tree"
        f" ({target.tree[:10]}) that it runs, use the network of this machine; review the files first:"
        f" aop review {target.feature_id}. After `{NO}` the agent is told."
    )
    with call.kernel.record.write() as tx:
        question = next((each for each in tx.all(Question) if _is_about(each, target)), None)
        if question is None:
            _close_older(tx, call, target)
            detail = {"paths": list(changed), "tree": target.tree, "command": list(command.cmd), **facts}
            question = put_question(
                tx,
                call,
                target.feature_id,
                "authorisation",
                call.kernel.redact(text),
                detail=mask_json(detail, call.kernel.redact),
                choices=(YES, NO),
                sets_up=target.tree,
            )
    return SetupNeedsNetwork(
        f"A set-up command of `{target.feature_id}` failed without the network: {how} The network is closed because"
        f" the feature changed {files}.",
        hint=f"A person answers the question `{question.question_id}` with `inbox.answer`; then send the call again.",
        **facts,
        paths=list(changed),
        question_id=question.question_id,
        question=question.text,
    )


def _close_older(tx: Transaction, call: Call, target: SetupTarget) -> None:
    """Close the open questions about earlier trees of the feature."""
    for each in list(tx.all(Question)):
        if each.is_open and each.sets_up and each.feature_id == target.feature_id:
            tx.put(close_question(each, call.kernel.now(), "The feature has another tree now."), each.question_id)


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
        read_only=tuple(str(checkout / path) for path in extras.closed),
        writable=rules.sandbox_write,
        limits=rules.limits,
    )
