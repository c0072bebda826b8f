"""`aop doctor`: check machine, repository, configuration and record."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aop.adapters.machine.clock import SystemClock
from aop.adapters.reporting.doctor.base_gates import check_base_gates
from aop.adapters.reporting.doctor.checks import Check, Health
from aop.adapters.reporting.doctor.examination import examine
from aop.adapters.reporting.doctor.ticket_systems import check_tokens
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import gate_call
from aop.cli.shell.terminal import Terminal
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--gates", action="store_true", help="also run every required gate mode on the base branch")
    parser.add_argument(
        "--outbound", action="store_true", help="also check that the ticket systems accept their tokens"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check, print, and fail if something that AOP needs does not work."""
    checks: list[Check] = []
    for check in _checks(Path(arguments.repo).absolute(), terminal, arguments):
        checks.append(check)
        if not terminal.json:
            terminal.text(_line(check))
    failures = sum(check.health is Health.FAILURE for check in checks)
    warnings = sum(check.health is Health.WARNING for check in checks)
    terminal.say(f"{count(len(checks), 'check')}: {failures} failed, {count(warnings, 'warning')}.")
    data = {"checks": msgspec.to_builtins(checks)}
    return terminal.result(data, "", code=Exit.FAILED if failures else Exit.OK)


def _checks(folder: Path, terminal: Terminal, asked: argparse.Namespace) -> Iterator[Check]:
    broken = False
    for check in examine(folder, os.environ, SystemClock().now()):
        broken |= check.health is Health.FAILURE
        yield check
    if asked.outbound:
        yield from check_tokens(os.environ, Redactor(Settings.from_env(os.environ).secrets))
    if asked.gates and broken:
        terminal.say("The gates were not run. Fix the failed checks first.")
    elif asked.gates:
        yield from _gates_on_base(folder, terminal)


def _gates_on_base(folder: Path, terminal: Terminal) -> Iterator[Check]:
    with build(folder, Settings.from_env(os.environ)) as app:
        config = app.gateway.kernel.config()
        head = app.repository.branches.head(config.policy.worktree.base_branch)
        call = gate_call(app, terminal.say)
        if head is not None:
            yield from check_base_gates(call, config, head)


def _line(check: Check) -> str:
    line = f"{check.health:<8} {check.name:<14} {check.found}"
    return f"{line}\n{'':<23} Fix: {check.fix}" if check.fix else line
