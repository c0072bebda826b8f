"""`aop gc`: find what no open feature needs, and remove it with `--apply`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from aop.adapters.reporting.doctor.leftovers import Leftover, Removal
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.wiring.leftovers import HubLeftovers, clean_hub, leftovers_of

HUB_MINUTES = 60
MOST_MINUTES = 365 * 24 * 60


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--apply", action="store_true", help="remove it (default: only list it)")
    parser.add_argument(
        "--hub-minutes",
        type=int,
        default=HUB_MINUTES,
        metavar="N",
        help="keep refs at the hub that were needed in the last N minutes (default: 60)",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Find, list, remove; unmerged work is saved first."""
    if not 0 <= arguments.hub_minutes <= MOST_MINUTES:
        raise InvalidCliArgs(f"`--hub-minutes` is a number from 0 to {MOST_MINUTES}.")
    with open_app(arguments) as app:
        leftovers = leftovers_of(app)
        found = list(leftovers.find())
        removed = [leftovers.remove(each) for each in found] if arguments.apply else []
        hub = clean_hub(app, apply=arguments.apply, grace_seconds=arguments.hub_minutes * 60)
    found += [each.leftover for each in hub.removals]
    removed += hub.removals if arguments.apply else ()
    if not terminal.json:
        _show(found, removed, hub, terminal)
    data = {
        "applied": arguments.apply,
        "found": msgspec.to_builtins(found),
        "removed": msgspec.to_builtins(removed),
        "hub_error": hub.error,
    }
    return terminal.result(data, "", code=_exit_code(found, removed, hub))


def _exit_code(found: Sequence[Leftover], removed: Sequence[Removal], hub: HubLeftovers) -> Exit:
    if hub.error is not None or any(each.problem for each in removed):
        return Exit.FAILED
    return Exit.OK if removed or not found else Exit.NOT_PROVEN


def _show(found: Sequence[Leftover], removed: Sequence[Removal], hub: HubLeftovers, terminal: Terminal) -> None:
    for left in [] if removed else found:
        work = "  has work that no branch has" if left.holds_work else ""
        terminal.text(f"{left.kind}  {left.name}{'  merged' if left.merged else '  ended' if left.ended else ''}{work}")
    for gone in removed:
        saved = f"  work saved as {gone.rescued}" if gone.rescued else ""
        terminal.text(f"{gone.leftover.kind}  {gone.leftover.name}  {gone.problem or 'removed'}{saved}")
    if hub.error is not None:
        terminal.say(f"The refs at the hub are as they were: {hub.error['message']} [{hub.error['code']}]")
    if not found:
        terminal.say("Nothing to clean up.")
    elif not removed:
        terminal.say(f"Nothing was removed. Remove {'it' if len(found) == 1 else 'them'} with: aop gc --apply")
