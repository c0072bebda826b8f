"""`aop notify test`: send a test notification to every target of the policy."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from aop.adapters.reporting.targets import Machine, TargetUnreachable, sender_for
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.kernel.config.people import NoticeKind, NotificationTarget
from aop.supervisor.notices import Notice


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", choices=("test",), metavar="test", help="send a test notification")
    parser.add_argument("--target", metavar="NAME", help="only this target of `notifications.targets`")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Send to each target once, without a retry."""
    with open_app(arguments) as app:
        kernel = app.gateway.kernel
        rules = kernel.config().policy.notifications
        machine = Machine(environ=app.settings.environ, clock=kernel.clock, timeout_seconds=rules.timeout_seconds)
        targets = _selected_targets(rules.targets, arguments.target)
        problems = {name: _send_test(target, machine, kernel.new_id("test")) for name, target in targets.items()}
    results: list[Json] = [{"target": name, "ok": not why, "problem": why} for name, why in problems.items()]
    lines = [f"{name}  {why or 'sent'}" for name, why in problems.items()]
    empty = "The policy has no `notifications.targets`: no notification was sent."
    return terminal.result({"targets": results}, "\n".join(lines), empty=empty, code=_exit_code(problems))


def _exit_code(problems: Mapping[str, str]) -> Exit:
    if not problems:
        return Exit.NOT_PROVEN
    return Exit.FAILED if any(problems.values()) else Exit.OK


def _selected_targets(targets: Mapping[str, NotificationTarget], name: str | None) -> Mapping[str, NotificationTarget]:
    if name is None:
        return targets
    if name not in targets:
        known = ", ".join(f"`{each}`" for each in targets) or "none"
        raise InvalidCliArgs(f"The policy has no target `{name}`; it has: {known}.", target=name)
    return {name: targets[name]}


def _send_test(target: NotificationTarget, machine: Machine, event_id: str) -> str:
    """Notify one target; return why it was not reached, or nothing."""
    notice = Notice(
        event_id=event_id,
        kind=NoticeKind.QUESTION,
        feature_id=FeatureId("test"),
        title="a test",
        text="AOP can reach you here. Nothing is asked.",
    )
    try:
        sender_for(target, machine)(notice)
    except TargetUnreachable as unreached:
        return str(unreached)
    return ""
