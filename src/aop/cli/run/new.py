"""`aop new`: write the spec of a feature, from a sentence or in an editor."""

from __future__ import annotations

import argparse
import os

from aop.adapters.machine.editor import written_text
from aop.cli.run.supervision.specs import warn_of_specs
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.ids import feature_id
from aop.kernel.features.specs import spec_path
from aop.wiring.spec_intake import place_specs, refuse_taken, written_spec

CUT = "<!-- aop: the text above this line becomes the spec; leave it empty to write none -->"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", help="the id of the new feature")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the spec; `-` reads it from standard input")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the spec, and print its path."""
    name = feature_id(arguments.feature)
    with open_app(arguments) as app:
        refuse_taken(app, name)
        text = _text(name, arguments.text, terminal)
        intake = written_spec(app, text, source="aop new", name=name)
        warn_of_specs(intake, terminal)
        place_specs(app, intake)
    path = spec_path(name)
    done = terminal.result({"feature_id": name, "spec_path": path}, path)
    if not terminal.json:
        terminal.say(f"Run it with: aop run --file {path}")
    return done


def _text(name: str, given: str | None, terminal: Terminal) -> str:
    if given == "-":
        return terminal.read_all()
    if given is not None:
        return given
    if not terminal.is_interactive:
        raise InvalidCliArgs("There is no text, and no terminal for an editor.", hint="Pass the text as an argument.")
    return written_text(f"{name}.md", f"\n\n{CUT}\n", os.environ).partition(CUT)[0]
