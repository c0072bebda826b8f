"""Command runs: `run_tests`, `run_command` and `check_syntax` on a build's tree."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import FileNotFound, Json
from aop.core.paths.names import canonical_path
from aop.core.roles import Role
from aop.forge.builds.workspace.build_workspace import OpenBuild, build_of, held_build
from aop.forge.builds.workspace.commands import FinishedCommand, allowed_argv, run_on_tree, seconds_for
from aop.forge.builds.workspace.file_moves import refuse_strange_move
from aop.forge.builds.workspace.judged_tree import store_tree
from aop.forge.builds.workspace.pinned_commands import pinned_commands
from aop.forge.builds.workspace.syntax import syntax_of
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.ports.git import FileMode
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.port import Transaction

TESTERS = frozenset({Role.FORGE_BUILDER, Role.SYSTEM})
RUNNERS = frozenset({Role.FORGE_BUILDER, Role.CODER, Role.SYSTEM})
CHECKERS = RUNNERS | {Role.FIXER}


class RunCommand(Arguments, frozen=True, kw_only=True):
    command: Annotated[str, Meta(min_length=1, max_length=4_000)]
    """One program and its arguments; no shell reads it."""
    timeout: Annotated[int, Meta(ge=1)] | None = None
    """Seconds; at most 300."""


class CommandRan(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    passed: bool
    """Whether it ended with exit code 0."""
    outcome: str
    """Its end: `passed`, `failed`, `timed_out`, `not_started` or `out_of_memory`."""
    exit_code: int | None
    """Its exit code; null if it was ended or did not start."""
    seconds: float
    """The seconds that it ran."""
    stdout: str
    """The end of its standard output, at most 50 KB; secrets are masked."""
    stderr: str
    """The end of its standard error, at most 10 KB."""
    truncated: bool
    """Whether the beginning of one of them is cut off."""
    problem: str
    """Why it did not end by itself; empty if it did."""
    changed: tuple[str, ...]
    """The files that it changed, and that are now part of the build."""
    discarded: tuple[str, ...]
    """The files whose changes were undone."""
    refusal: str
    """Why changes were undone that it made to files of the product; empty if none were."""
    tree: str
    """The tree of the build from now on."""


class CheckSyntax(Arguments, frozen=True, kw_only=True):
    file_path: str
    """The path from the root of the workspace."""


class SyntaxChecked(Struct, frozen=True, kw_only=True):
    file_path: str
    """The file."""
    valid: bool | None
    """Whether it can be parsed; null if nothing here knows its language."""
    checker: str
    """The parser that read it; empty if there is none."""
    problems: tuple[str, ...]
    """The problems, each with its line."""


def run_tests(call: Call, arguments: RunCommand) -> Outcome:
    """Run the tests for the builder's information; a proof is what AOP runs itself."""
    return _run(call, arguments, "discard", call.kernel.config().policy.forge.build.test_seconds)


def run_command(call: Call, arguments: RunCommand) -> Outcome:
    """Run an allow-listed command; what it changes is judged as a write is."""
    return _run(call, arguments, "judge", call.kernel.config().policy.forge.build.command_seconds)


def _run(call: Call, arguments: RunCommand, leavings: Literal["judge", "discard"], default: int) -> Outcome:
    rules = call.kernel.config().policy.forge.build
    seconds = seconds_for(arguments.timeout, default, rules)
    with held_build(call) as build:
        with call.kernel.record.read() as view:
            pinned = pinned_commands(view, build.build)
        argv = allowed_argv(arguments.command, rules, pinned)
        links = call.kernel.config().policy.worktree.link
        refuse_strange_move(call.kernel.git.objects, build.state.tree, argv, links)
        ended = run_on_tree(call, build, argv, seconds=seconds, leavings=leavings)
        if ended.taken is not None:
            call.kernel.send_work(ended.taken.after)
        return call.commit(lambda tx: _stored(tx, call, build, ended))


def _stored(tx: Transaction, call: Call, build: OpenBuild, ended: FinishedCommand) -> Outcome:
    step, build_id = ended.run.steps[0], build.cycle.build_id
    state = build.state if ended.taken is None else store_tree(tx, call, build.cycle, ended.taken)
    facts: dict[str, Json] = {"command": list(step.command), "outcome": step.outcome, "exit_code": step.exit_code}
    where: dict[str, Json] = {"ran_on": build.state.tree, "sandbox_level": ended.run.sandbox_level}
    tx.append(call.event("command_ran", state.feature_id, build_id=build_id, tool=call.tool.name, **facts, **where))
    return CommandRan(
        build_id=build_id,
        passed=ended.run.verdict is Verdict.PASS,
        outcome=step.outcome,
        exit_code=step.exit_code,
        seconds=step.seconds,
        stdout=ended.output,
        stderr=ended.errors,
        truncated=ended.truncated,
        problem=step.problem,
        changed=() if ended.taken is None else ended.taken.paths,
        discarded=ended.discarded,
        refusal=ended.refusal,
        tree=state.tree,
    )


def check_syntax(call: Call, arguments: CheckSyntax) -> Outcome:
    """Parse one file of the build's tree, and say with what."""
    path, objects = canonical_path(arguments.file_path), call.kernel.git.objects
    shown = call.kernel.redact.mask_secrets(path)
    with call.kernel.record.read() as view:
        tree = build_of(view, call.principal).state.tree
    entry = objects.entry(tree, path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        raise FileNotFound(f"There is no file `{shown}`.", path=shown)
    found = syntax_of(call.kernel, path, objects.blob(entry.oid))
    return SyntaxChecked(file_path=shown, valid=found.valid, checker=found.checker, problems=found.problems)


TOOLS = (
    Tool(
        name="run_tests",
        summary="Run the tests of your build; files that they leave are discarded.",
        arguments=RunCommand,
        output=CommandRan,
        roles=TESTERS,
        run=run_tests,
        mutates=True,
        lean=True,
    ),
    Tool(
        name="run_command",
        summary="Run a listed command in your build, without a shell and network; files that it changes are judged.",
        arguments=RunCommand,
        output=CommandRan,
        roles=RUNNERS,
        run=run_command,
        mutates=True,
        lean=True,
    ),
    Tool(
        name="check_syntax",
        summary="Parse a file of your build.",
        arguments=CheckSyntax,
        output=SyntaxChecked,
        roles=CHECKERS,
        run=check_syntax,
        lean=True,
    ),
)
