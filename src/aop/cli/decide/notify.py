"""`aop notify test`: tell every target of the policy something, and say which were reached."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from aop.adapters.reporting.targets import Machine, Unreached, sender_for
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.kernel.config.people import NoticeKind, NotificationTarget
from aop.supervisor.notices import Notice


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("what", choices=("test",), metavar="test")
    parser.add_argument("--target", metavar="NAME", help="only this one of `notifications.targets`")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Tell each target once, without a second attempt."""
    with open_app(arguments) as app:
        kernel = app.gateway.kernel
        rules = kernel.config().policy.notifications
        machine = Machine(environ=app.settings.environ, clock=kernel.clock, timeout_seconds=rules.timeout_seconds)
        targets = _chosen(rules.targets, arguments.target)
        told = {name: _tried(target, machine, kernel.new_id("test")) for name, target in targets.items()}
    _show(told, terminal)
    if not told:
        return Exit.NOT_PROVEN
    return Exit.FAILED if any(told.values()) else Exit.OK


def _chosen(targets: Mapping[str, NotificationTarget], name: str | None) -> Mapping[str, NotificationTarget]:
    """Return the targets that are tried.

    Raises: InvalidCliArgs.
    """
    if name is None:
        return targets
    if name not in targets:
        known = ", ".join(f"`{each}`" for each in targets) or "none"
        raise InvalidCliArgs(f"The policy has no target `{name}`; it has: {known}.", target=name)
    return {name: targets[name]}


def _tried(target: NotificationTarget, machine: Machine, event_id: str) -> str:
    """Tell a target; return why it was not reached, or nothing."""
    notice = Notice(
        event_id=event_id,
        kind=NoticeKind.QUESTION,
        feature_id=FeatureId("test"),
        title="a test",
        text="AOP can reach you here. Nothing is asked.",
    )
    try:
        sender_for(target, machine)(notice)
    except Unreached as unreached:
        return str(unreached)
    return ""


def _show(told: Mapping[str, str], terminal: Terminal) -> None:
    if terminal.json:
        targets: list[Json] = [{"target": name, "ok": not why, "problem": why} for name, why in told.items()]
        terminal.object({"ok": bool(told) and not any(told.values()), "targets": targets})
        return
    for name, why in told.items():
        terminal.text(f"{name}  {why or 'told'}")
    if not told:
        terminal.say("The policy names no `notifications.targets`: nobody is told anything.")
