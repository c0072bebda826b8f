"""Commands: run on the tree of a build by the executor of the gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from aop.core.errors import CommandNotAllowed, InvalidArguments, Refusal, SecretDetected
from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.core.paths.names import fold_path
from aop.core.text.counts import list_some
from aop.forge.builds.workspace.build_workspace import OpenBuild
from aop.forge.builds.workspace.judged_tree import JudgedTree, judged_tree
from aop.forge.builds.workspace.projection import SHOWN_FOLDER, show_contracts
from aop.kernel.config.gates import Step
from aop.kernel.config.workflows import BuildRules
from aop.kernel.features.worktree_hold import note_quarantined
from aop.kernel.gates.gate_runs import plan_command, run_gates
from aop.kernel.gates.steps import argv_of, error_log
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.git import FileContent, TreeChange
from aop.kernel.record.documents.gate_runs import GateRun

LARGEST_OUTPUT = 50 * 1024
LARGEST_ERRORS = 10 * 1024
LEFT_BEHIND = ("**/__pycache__/**", "**/*.pyc", "**/.coverage", "**/.coverage.*", "**/node_modules/**", "**/target/**")
"""What programs leave and no product holds; it is never taken in."""


class FinishedCommand(Struct, frozen=True, kw_only=True):
    """A command that ran, and what it left in the worktree."""

    run: GateRun
    output: str
    errors: str
    truncated: bool
    taken: JudgedTree | None = None
    """The changes that become part of the build; None if there are none."""
    discarded: tuple[str, ...] = ()
    """The paths whose changes were undone."""
    refusal: str = ""
    """Why changes that the command made were not taken in."""


def allowed_argv(command: str, rules: BuildRules, pinned: Sequence[tuple[str, ...]] = ()) -> tuple[str, ...]:
    """Return the words of a command that a build may run. Raises: InvalidArguments, CommandNotAllowed."""
    argv = argv_of(command, "command")
    if any(_names_git(word) for word in argv):
        raise CommandNotAllowed("The command names a path in `.git`, which no build reaches.", command=command)
    allowed = [tuple(each.split()) for each in rules.commands]
    if argv in pinned or any(argv[: len(prefix)] == prefix for prefix in allowed if prefix):
        return argv
    raise CommandNotAllowed(
        f"`{' '.join(argv[:3])}` is not on the list of commands that a build may run: {list_some(rules.commands, 30)}.",
        commands=list(rules.commands),
    )


def _names_git(word: str) -> bool:
    return any(fold_path(part) == ".git" for each in word.split("=") for part in each.split("/"))


def seconds_for(asked: int | None, default: int, rules: BuildRules) -> int:
    """Return the time limit of a command. Raises: InvalidArguments."""
    if asked is not None and asked > rules.longest_seconds:
        raise InvalidArguments(f"`timeout` is {asked} s, and a command has at most {rules.longest_seconds} s.")
    return min(default, rules.longest_seconds) if asked is None else asked


def run_on_tree(
    call: Call, build: OpenBuild, argv: tuple[str, ...], *, seconds: int, leavings: Literal["judge", "discard"]
) -> FinishedCommand:
    """Run a command in the worktree of a build, which the caller holds; what it leaves is judged, or discarded."""
    kernel, state = call.kernel, build.state
    if kernel.redact.secrets_in(" ".join(argv)):
        raise SecretDetected("The command seems to contain a secret, and it would be stored.")
    step = Step(name="command", cmd=argv, timeout_seconds=seconds, env={"PYTHONDONTWRITEBYTECODE": "1"})
    worktrees, name = kernel.git.worktrees, state.feature_id
    checkout = worktrees.ensure(name, state.branch)
    note_quarantined(call, name, worktrees.clear_strays(name, state.tree))
    taken, refusal = None, ""
    left: tuple[str, ...] = ()
    try:
        run = run_gates(call, plan_command(state, step, kernel.config()), checkout)
        left = worktrees.status(name, state.tree).strays
        if left and leavings == "judge":
            taken, refusal = _judged_leavings(call, build, worktrees.edited_tree(name, state.tree))
    finally:
        worktrees.discard_strays(name, state.tree)
        show_contracts(kernel, name)
    kept = () if taken is None else taken.paths
    log_path = run.steps[0].log_path
    output, is_cut = _end_of(call, log_path, LARGEST_OUTPUT)
    errors, are_cut = _end_of(call, error_log(log_path), LARGEST_ERRORS)
    return FinishedCommand(
        run=run,
        output=output,
        errors=errors,
        truncated=is_cut or are_cut,
        taken=taken,
        discarded=tuple(kernel.redact.mask_secrets(path) for path in left if path not in kept),
        refusal=refusal,
    )


def _judged_leavings(call: Call, build: OpenBuild, edited: TreeId) -> tuple[JudgedTree | None, str]:
    """Return what a command left as a judged tree, or why it is not taken in."""
    objects, tree = call.kernel.git.objects, build.state.tree
    kept = [change for change in objects.changes(tree, edited) if not _is_left_behind(change)]
    if not kept:
        return None, ""
    files: dict[str, FileContent | None] = {
        change.path: None if change.new is None else (change.new.mode, objects.blob(change.new.oid)) for change in kept
    }
    try:
        return judged_tree(call, build.state, objects.tree_with(tree, files)), ""
    except Refusal as refusal:
        return None, refusal.message


def _is_left_behind(change: TreeChange) -> bool:
    is_shown = change.path.startswith(f"{SHOWN_FOLDER}/")
    return change.old is None and (is_shown or any(globs.matches(pattern, change.path) for pattern in LEFT_BEHIND))


def _end_of(call: Call, log_path: str, most: int) -> tuple[str, bool]:
    """Return the end of what a command printed, and whether its beginning is cut off."""
    log = call.kernel.files.read_tail(log_path, limit=most + 1)
    return log[-most:].decode(errors="replace"), len(log) > most
