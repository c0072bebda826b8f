"""`aop add`: put specs into the run that is going on."""

from __future__ import annotations

import argparse

from aop.cli.run.supervision.live import await_taken, running_supervisor
from aop.cli.run.supervision.specs import place_specs, read_specs, spec_arguments
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import NoSupervisor
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    spec_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read the specs, put them in their place, and have the supervisor take them."""
    with open_app(arguments) as app:
        return _add(app, arguments, terminal)


def _add(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    intake = read_specs(app, arguments)
    holder = running_supervisor(app)
    if holder is None:
        raise NoSupervisor("No supervisor is running here that could take a spec.")
    place_specs(app, intake)
    names = [feature.feature_id for feature in intake.features]
    for name in names:
        call_tool(app, "run.add", {"feature_id": name, "depends_on": list(intake.depends_on.get(name, ()))})
    await_taken(app, names)
    if terminal.json:
        terminal.object({"ok": True, "pid": holder.pid, "features": list(names)})
    else:
        terminal.say(f"Process {holder.pid} works on them: {', '.join(names)}")
    return Exit.OK
