"""The command line: one parser for each verb, whose help fits the terminal and whose refusals are JSON if wanted."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn, TextIO

from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs


class Parser(argparse.ArgumentParser):
    """Shows examples in its help, and says what is wrong as JSON to whoever asked for JSON."""

    def format_help(self) -> str:
        """Return the help of a verb."""
        from aop.cli.shell.examples import EXAMPLES

        examples = EXAMPLES.get(self.prog.removeprefix("aop "), ())
        shown = "".join(f"  {line}\n" for line in examples)
        return super().format_help() + (f"\nexamples:\n{shown}" if shown else "")

    def error(self, message: str) -> NoReturn:
        """End the process, with what was not understood."""
        if "--json" not in sys.argv:
            super().error(message)
        misused = InvalidCliArgs(f"`{self.prog}` was not understood: {message}.")
        sys.exit(Terminal(json=True).refused(misused))


class Help(argparse.HelpFormatter):
    """Knows how wide the terminal is; the usual one, made for every option, asks a module that knows all archives."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        super().__init__(prog, width=int(columns) if columns.isdecimal() else _columns_of(sys.__stdout__))


def _columns_of(stream: TextIO | None) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream else 80
    except (OSError, ValueError):
        return 80
