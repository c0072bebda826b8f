"""Talking to whoever started `aop`: data on stdout, talk on stderr, questions only to a person."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

from aop.cli.exits import Exit, exit_of
from aop.core.errors import InvalidCliArgs, Json, Refusal


class Terminal:
    """The three streams of one command."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._in: TextIO = sys.stdin
        self._out: TextIO = sys.stdout
        self._err: TextIO = sys.stderr

    def say(self, text: str) -> None:
        """Tell a person something; programs need not read it."""
        print(text, file=self._err, flush=True)

    def text(self, text: str) -> None:
        """Print what the command is for, as text."""
        print(text, file=self._out, flush=True)

    def object(self, value: Json) -> None:
        """Print what the command is for, as one JSON object."""
        from aop.core.jsontext import pretty_json

        self._out.write(pretty_json(value).decode())
        self._out.flush()

    def line(self, value: Json) -> None:
        """Print one of several objects, each on a line of its own."""
        from aop.core.jsontext import canonical_json

        self.text(canonical_json(value).decode())

    def refuse(self, error: Mapping[str, Json], evidence: Mapping[str, Json]) -> Exit:
        """Print a refusal, and return its exit code."""
        code = str(error["code"])
        if self.json:
            self.object({"ok": False, "error": error, "evidence": evidence})
            return exit_of(code)
        self.say(f"aop: {error['message']} [{code}]")
        details = error["details"]
        actions = details.get("suggested_next_actions", ()) if isinstance(details, Mapping) else ()
        for action in actions if isinstance(actions, (list, tuple)) else ():
            self.say(f"  {action}")
        if evidence.get("log_path"):
            self.say(f"  Log: {evidence['log_path']}")
        return exit_of(code)

    def refused(self, refusal: Refusal) -> Exit:
        """Print a refusal that was raised, and return its exit code."""
        return self.refuse(refusal.as_error(), refusal.evidence)

    def confirm(self, question: str) -> bool:
        """Ask a person a yes-or-no question; anything but yes is no.

        Raises: InvalidCliArgs if nobody is there to answer.
        """
        if not self._in.isatty():
            raise InvalidCliArgs("There is no terminal to ask at.", hint="Pass `--yes` to answer yes beforehand.")
        self._err.write(f"{question} [y/N] ")
        self._err.flush()
        return self._in.readline().strip().lower() in ("y", "yes")

    def read_all(self) -> str:
        """Read standard input to its end."""
        return self._in.read()
