"""`aop add`: add specs to the current run."""

from __future__ import annotations

import argparse

from aop.cli.run.supervision.arguments import add_anyway_argument
from aop.cli.run.supervision.base_gates import check_base_gates
from aop.cli.run.supervision.specs import add_spec_arguments, intake_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import NoSupervisor
from aop.wiring.build import App
from aop.wiring.spec_intake import Intake, place_specs
from aop.wiring.supervisor_lease import await_requests_taken, lease_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_spec_arguments(parser)
    add_anyway_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read and place the specs, and request them from the running supervisor."""
    with open_app(arguments) as app:
        return add_to_run(app, intake_of(app, arguments, terminal), arguments, terminal)


def add_to_run(app: App, intake: Intake, arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Place specs, and request them from the running supervisor. Raises: NoSupervisor, SpecIngestFailed."""
    holder = lease_holder(app.root, app.record)
    if holder is None:
        raise NoSupervisor("No supervisor is running in this repository.")
    names = [feature.feature_id for feature in intake.features]
    check_base_gates(app, arguments, terminal, names)
    place_specs(app, intake)
    for name in names:
        call_tool(app, "run.add", {"feature_id": name, "depends_on": list(intake.depends_on.get(name, ()))})
    await_requests_taken(app, names)
    message = f"Added to the run of process {holder.pid}: {', '.join(names)}"
    return terminal.done({"pid": holder.pid, "features": list(names)}, message)
