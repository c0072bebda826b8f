"""Spec arguments: `--file` and `--folder` of the commands that take specs."""

from __future__ import annotations

import argparse

from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.kernel.features.endings import FeatureEnding
from aop.wiring.build import App
from aop.wiring.spec_intake import Intake, read_specs


def add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name specs."""
    parser.add_argument("-fi", "--file", metavar="FILE", help="one spec")
    parser.add_argument("-fl", "--folder", metavar="FOLDER", help="every `*.md` below a folder is a spec")


def intake_of(app: App, arguments: argparse.Namespace, terminal: Terminal) -> Intake:
    """Read the named specs, and say which are skipped. Raises: InvalidCliArgs, and as `read_specs`."""
    if arguments.file is not None and arguments.folder is not None:
        raise InvalidCliArgs("`--file` and `--folder` cannot be used together.", hint="Name one file or one folder.")
    intake = read_specs(app, file=arguments.file, folder=arguments.folder)
    for name, ending in intake.skipped.items():
        again = "" if ending is FeatureEnding.MERGED else " Start it anew with: aop run --file SPEC"
        terminal.say(f"Skipped {name}: it is {ending}.{again}")
    warn_of_specs(intake, terminal)
    return intake


def warn_of_specs(intake: Intake, terminal: Terminal) -> None:
    """Say what a person should know of these specs before an agent gets them."""
    for warning in intake.warnings():
        terminal.say(f"Warning: {warning}")
