"""`aop add`: put specs into the run that is going on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.cli.run.supervision.live import await_taken, running_supervisor
from aop.cli.run.supervision.specs import place_specs, read_specs, spec_arguments
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import Terminal
from aop.core.errors import NoSupervisor
from aop.wiring.build import App, Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    spec_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read the specs, put them in their place, and have the supervisor take them."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    try:
        return _add(app, arguments, terminal)
    finally:
        app.close()


def _add(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    intake = read_specs(app, arguments)
    holder = running_supervisor(app)
    if holder is None:
        raise NoSupervisor("No supervisor is running here that could take a spec.")
    place_specs(app, intake)
    names = [feature.feature_id for feature in intake.features]
    for name in names:
        given = {"feature_id": name, "depends_on": list(intake.depends_on.get(name, ()))}
        answer = app.gateway.call(app.person, "run.add", given)
        if answer.error is not None:
            return terminal.refuse(answer.error, answer.evidence)
    await_taken(app, names)
    if terminal.json:
        terminal.object({"ok": True, "pid": holder.pid, "features": list(names)})
    else:
        terminal.say(f"Process {holder.pid} works on them: {', '.join(names)}")
    return Exit.OK
