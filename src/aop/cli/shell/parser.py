"""Parser of one verb: its help shows examples, its errors are JSON with `--json`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from aop.cli.shell.terminal import answers_in_json, size_of
from aop.core.errors import InvalidCliArgs
from aop.core.text.suggestions import did_you_mean


class Parser(argparse.ArgumentParser):
    """An argument parser with examples in its help and JSON errors."""

    action = ""
    """The action of the verb that it parses, if each has arguments of its own."""

    listing = ""
    """What its help lists before the examples: the actions of a verb, in groups."""

    @property
    def actions(self) -> tuple[argparse.Action, ...]:
        """Return the options and words that it takes."""
        return tuple(self._actions)

    @property
    def examples(self) -> tuple[str, ...]:
        """Return the examples of the verb."""
        from aop.cli.shell.examples import EXAMPLES

        lines = EXAMPLES.get(self.prog.removeprefix("aop "), ())
        return tuple(line for line in lines if f"{line} ".startswith(f"{self.prog} {self.action}".rstrip() + " "))

    def format_help(self) -> str:
        """Return the help of a verb, with its examples."""
        lines = "".join(f"  {line}\n" for line in self.examples)
        examples = f"\nexamples:\n{lines}" if lines and not self.listing else ""
        return super().format_help() + self.listing + examples

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is not one of the choices, and name the closest one. Raises: ArgumentError."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        text = f"there is no `{value}`; choose from {', '.join(names)}.{did_you_mean(str(value), names)}"
        raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        """Print the error and end the process. Raises: InvalidCliArgs if the command answers in JSON."""
        head, _, words = message.partition("unrecognized arguments: ")
        if not head and words:
            message += f".{meant}" if (meant := did_you_mean(words.split()[0], self._option_string_actions)) else ""
        if answers_in_json(sys.argv[1:]):
            end = "" if message.endswith("?") else "."
            raise InvalidCliArgs(f"`{self.prog}` was not understood: {message}{end}")
        super().error(message)


class Help(argparse.HelpFormatter):
    """A formatter that asks for the terminal's width without importing `shutil`."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        super().__init__(prog, width=int(columns) if columns.isdecimal() else size_of(sys.__stdout__).columns)
