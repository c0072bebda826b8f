"""`aop request-changes`: send your comments; the next turn gets them."""

from __future__ import annotations

import argparse

from aop.cli.change.objections import send_objection
from aop.cli.shell.terminal import Terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of a feature; `aop status` lists them")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the changes that you want, beside your comments")
    parser.add_argument("--file", metavar="PATH", help="a file of the feature that the text is about")
    parser.add_argument("--lines", metavar="A-B", help="lines of that file, which are quoted to the agent")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Send the request."""
    said = {name: value for name in ("text", "file", "lines") if (value := getattr(arguments, name)) is not None}
    return send_objection(arguments, terminal, "feature.request_changes", said)
