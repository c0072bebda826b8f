"""A whole run with a log-in, as a process of its own.

All is as `aop run` has it, except that the names of hosts lead to a double on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from aop.cli.run import run
from aop.cli.run.supervision.specs import intake_of
from aop.cli.run.supervision.supervise import plan_of, start_run
from aop.cli.shell.terminal import Terminal
from aop.wiring.build import Settings, build
from aop.wiring.spec_intake import place_specs
from tests.real.login_turn import network_of


def main(root: str, port: str, *words: str) -> int:
    """Run the specs that the words name, as `aop run` does."""
    parser = argparse.ArgumentParser()
    run.arguments(parser)
    arguments = parser.parse_args(words)
    settings = replace(Settings.from_env(os.environ), network=network_of(int(port)))
    terminal = Terminal(json=False)
    with build(Path(root), settings) as app:
        intake = intake_of(app, arguments, terminal)
        plan = plan_of(app, arguments, intake)
        return start_run(app, plan, arguments, terminal, before=lambda: place_specs(app, intake))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
