"""`aop run`: bring every spec to `ready_to_merge` or to a question."""

from __future__ import annotations

import argparse

import msgspec

from aop.cli.run.supervision.arguments import add_supervision_arguments
from aop.cli.run.supervision.specs import add_spec_arguments, intake_of
from aop.cli.run.supervision.supervise import plan_of, start_run
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json
from aop.kernel.gateway.principals import refuse_agent
from aop.wiring.build import App
from aop.wiring.spec_intake import place_specs
from aop.wiring.supervision import RunPlan


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_spec_arguments(parser)
    parser.add_argument("--web", action="store_true", help="open the board in your browser")
    parser.add_argument("--dry-run", action="store_true", help="list the features, and change nothing")
    add_supervision_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check everything, then place the specs and supervise."""
    with open_app(arguments) as app:
        intake = intake_of(app, arguments, terminal)
        plan = plan_of(app, arguments, intake)
        if arguments.dry_run:
            return _print_plan(plan, terminal)
        if arguments.web:
            refuse_agent("`aop run --web`", app.person)

        def before() -> None:
            place_specs(app, intake)
            if arguments.web:
                _open_board(app, terminal)

        return start_run(app, plan, arguments, terminal, before=before)


def _open_board(app: App, terminal: Terminal) -> None:
    from aop.cli.screens.page_links import link_in, show

    link = link_in(app.root, app.settings.environ, to="/board")
    if not show(link, terminal):
        terminal.say(link.url)


def _print_plan(plan: RunPlan, terminal: Terminal) -> int:
    shown: dict[str, Json] = {
        "dry_run": True,
        "features": [msgspec.to_builtins(feature) for feature in plan.features],
        "depends_on": {name: list(others) for name, others in plan.depends_on.items() if others},
        "providers": msgspec.to_builtins(plan.choices),
        "limits": msgspec.to_builtins(plan.limits),
    }
    return terminal.result(shown, "\n".join(f"{feature.feature_id}  {feature.source}" for feature in plan.features))
