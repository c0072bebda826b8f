"""`aop resume`: go on with the features that a stopped or killed run left on their way."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aop.cli.supervised import order_of, supervised, supervising_arguments
from aop.cli.terminal import Terminal
from aop.wiring import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    supervising_arguments(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Supervise what is left over; if nothing is, nothing changes."""
    settings = Settings.from_env(os.environ)
    app = build(Path(arguments.repo), settings)
    try:
        return supervised(app, settings, order_of(app, settings, arguments), arguments, terminal)
    finally:
        app.close()
