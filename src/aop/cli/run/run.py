"""`aop run`: bring every spec to `ready_to_merge`, or to a question; in the background, or while you wait."""

from __future__ import annotations

import argparse

import msgspec

from aop.cli.run.supervision.specs import place_specs, read_specs, spec_arguments
from aop.cli.run.supervision.supervise import Order, order_of, supervised, supervising_arguments
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    spec_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    supervising_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check everything, take the lease, put the specs in their place, and supervise."""
    with open_app(arguments) as app:
        intake = read_specs(app, arguments)
        order = order_of(app, app.settings, arguments, intake.features, intake.depends_on)
        if arguments.dry_run:
            return _told(order, terminal)
        return supervised(app, app.settings, order, arguments, terminal, before=lambda: place_specs(app, intake))


def _told(order: Order, terminal: Terminal) -> int:
    plan: dict[str, Json] = {
        "ok": True,
        "dry_run": True,
        "features": [msgspec.to_builtins(feature) for feature in order.features],
        "depends_on": {name: list(others) for name, others in order.depends_on.items() if others},
        "providers": msgspec.to_builtins(order.choices),
        "limits": msgspec.to_builtins(order.limits),
    }
    if terminal.json:
        terminal.object(plan)
    else:
        for feature in order.features:
            terminal.text(f"{feature.feature_id}  {feature.source}")
    return Exit.OK
