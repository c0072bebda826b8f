"""`aop reject`: reject the approach of a feature; it is planned again."""

from __future__ import annotations

import argparse

from aop.cli.change.objections import send_objection
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("why", metavar="WHY", help="the reason, for the planner")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Send the rejection."""
    return send_objection(arguments, terminal, "feature.reject", {"text": arguments.why})
