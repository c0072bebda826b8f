"""`aop retry`: continue a failed or blocked feature with new turns."""

from __future__ import annotations

import argparse

from aop.cli.run.supervision.arguments import add_supervision_arguments
from aop.cli.run.supervision.base_gates import check_base_gates
from aop.cli.run.supervision.supervise import plan_of, start_run
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App
from aop.wiring.supervisor_lease import await_requests_taken, lease_holder


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    add_supervision_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Hand the feature to the running supervisor, or supervise it here."""
    with open_app(arguments) as app:
        if lease_holder(app.root, app.record) is not None:
            check_base_gates(app, arguments, terminal, [FeatureId(arguments.feature)])
            return _hand_over(app, arguments.feature, terminal)
        plan = plan_of(app, arguments)
        return start_run(app, plan, arguments, terminal, before=lambda: _request_retry(app, arguments.feature))


def _hand_over(app: App, feature: str, terminal: Terminal) -> int:
    answer = _request_retry(app, feature)
    await_requests_taken(app, [feature])
    now = "waits as before" if answer.data["status"] == "blocked" else f"continues: {answer.data['status']}"
    return terminal.answer(answer, lambda data: terminal.say(f"{feature} was {data['was']} and {now}."))


def _request_retry(app: App, feature: str) -> Envelope:
    return call_tool(app, "feature.retry", {"feature_id": feature})
