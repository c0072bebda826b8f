"""`aop fix`: one sentence becomes the spec of a new feature, and runs."""

from __future__ import annotations

import argparse

from aop.cli.run.add import add_to_run
from aop.cli.run.supervision.arguments import add_supervision_arguments
from aop.cli.run.supervision.specs import warn_of_specs
from aop.cli.run.supervision.supervise import plan_of, start_run
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.wiring.spec_intake import place_specs, written_spec
from aop.wiring.supervisor_lease import lease_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("text", metavar="TEXT", help="what to change; it becomes the spec")
    parser.add_argument("--id", metavar="FEATURE", help="the id of the feature (default: the first words of the text)")
    add_supervision_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the spec, and hand it to the running supervisor or supervise it here."""
    with open_app(arguments) as app:
        intake = written_spec(app, arguments.text, source="aop fix", name=arguments.id)
        warn_of_specs(intake, terminal)
        if lease_holder(app.root, app.record) is not None:
            return add_to_run(app, intake, arguments, terminal)
        plan = plan_of(app, arguments, intake)
        return start_run(app, plan, arguments, terminal, before=lambda: place_specs(app, intake))
