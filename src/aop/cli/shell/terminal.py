"""Terminal: results on stdout, messages on stderr, questions only to a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from aop.cli.shell.exits import Exit, exit_of
from aop.core.errors import InvalidCliArgs, Json, Refusal
from aop.core.version import OUTPUT_SCHEMA

if TYPE_CHECKING:  # `aop --help` needs no kernel
    from aop.kernel.gateway.calls import Envelope


class OutputLost(Exception):
    """The result could not be printed: the disk is full, or the file is closed."""


class CallRefused(Exception):
    """A tool refused a call, and the command ends with that refusal."""

    def __init__(self, error: Mapping[str, Json], evidence: Mapping[str, Json]) -> None:
        super().__init__(str(error["message"]))
        self.error = error
        self.evidence = evidence


def answers_in_json(words: Sequence[str]) -> bool:
    """Tell whether a command prints JSON whatever happens: it was asked to, or it passes a tool's answer on."""
    return "--json" in words or list(words[:1]) == ["call"]


class Terminal:
    """The three streams of one command."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._in = _configured(sys.stdin, encoding="utf-8", errors="strict")
        # Characters that the terminal cannot show appear as escapes.
        self._out = _configured(sys.stdout, errors="backslashreplace")
        self._err = _configured(sys.stderr, errors="backslashreplace")

    @property
    def is_screen(self) -> bool:
        """Tell whether stdout is a screen that can be redrawn."""
        return self._out.isatty()

    @property
    def is_interactive(self) -> bool:
        """Tell whether a person can be asked here."""
        return self._in.isatty() and not self.json

    @property
    def columns(self) -> int:
        """Return the width of that screen."""
        return self.size.columns

    @property
    def size(self) -> os.terminal_size:
        """Return columns and lines of that screen."""
        return size_of(self._out)

    @property
    def message_width(self) -> int:
        """Return the width that messages are wrapped at; without a terminal, they are not."""
        return size_of(self._err).columns if self._err.isatty() else sys.maxsize

    def raw(self, text: str) -> None:
        """Print a text without a line end of its own, for a screen that is redrawn."""
        self._print(text)

    def say(self, text: str) -> None:
        """Print a message for a person, on stderr; it may quote an agent, or name a file of its."""
        # In one piece: `print` writes the line end separately, and another thread may write in between.
        self._err.write(f"{_as_visible(text)}\n")
        self._err.flush()

    def text(self, text: str) -> None:
        """Print the result as text."""
        self._print(f"{text}\n")

    def exact(self, text: str) -> None:
        """Print a text unchanged, as UTF-8."""
        _configured(self._out, encoding="utf-8", errors="strict")
        self._print(text)

    def line(self, data: Json, text: str) -> None:
        """Print one result of a stream: a JSON object on its own line, or its text."""
        if self.json:
            from aop.core.text.json import canonical_json

            self._print_json(canonical_json(_shape(Exit.OK, {"data": data}, {})) + b"\n")
        else:
            self.text(text)

    def answer(self, envelope: Envelope, show: Callable[[Any], None], *, code: Exit = Exit.OK) -> Exit:
        """Print a tool's answer: all of it as JSON, or what `show` prints of its data."""
        if self.json:
            return self._object(code, {"data": envelope.data}, envelope.evidence)
        show(envelope.data)
        return code

    def result(self, data: Json, text: str, *, empty: str = "", code: Exit = Exit.OK) -> Exit:
        """Print a result: its data as JSON, or its text, or the message `empty` if there is no text."""
        if self.json:
            return self._object(code, {"data": data}, {})
        if text:
            self.text(text)
        elif empty:
            self.say(empty)
        return code

    def done(self, data: Json, message: str, *, code: Exit = Exit.OK) -> Exit:
        """Print a result that has no text: its data as JSON, or a message for a person."""
        return self.result(data, "", empty=message, code=code)

    def refuse(self, error: Mapping[str, Json], evidence: Mapping[str, Json]) -> Exit:
        """Print a refusal, and return its exit code."""
        code = str(error["code"])
        if self.json:
            return self._object(exit_of(code), {"error": error}, evidence)
        self.say(f"aop: {error['message']} [{code}]")
        details: Mapping[str, Any] = error["details"] if isinstance(error["details"], Mapping) else {}
        actions = details.get("suggested_next_actions", ())
        from aop.cli.shell.commands import with_commands

        conflicts: Any = details.get("conflicts") if code == "merge_conflict" else None
        if conflicts:
            from aop.core.text.conflicts import conflict_lines

            self.say("\n".join(conflict_lines(conflicts)))
        for action in actions if isinstance(actions, (list, tuple)) else ():
            self.say(f"  {with_commands(str(action), details)}")
        if evidence.get("log_path"):
            self.say(f"  Log: {evidence['log_path']}")
        return exit_of(code)

    def refused(self, refusal: Refusal) -> Exit:
        """Print a refusal that was raised, and return its exit code."""
        return self.refuse(refusal.as_error(), refusal.evidence)

    def confirm(self, question: str) -> bool:
        """Ask a person a question; any answer but yes means no. Raises: InvalidCliArgs without a terminal."""
        if not self._in.isatty():
            raise InvalidCliArgs("There is no terminal to ask on.", hint="Pass `--yes` to answer yes in advance.")
        self._err.write(f"{_as_visible(question)} [y/N] ")
        self._err.flush()
        return self._in.readline().strip().lower() in ("y", "yes")

    def ask(self, question: str) -> str | None:
        """Ask a person for one line; None at the end of the input. Raises: InvalidCliArgs if it is not UTF-8."""
        self._err.write(question)
        self._err.flush()
        try:
            line = self._in.readline()
        except UnicodeDecodeError as error:
            raise InvalidCliArgs("The answer is not UTF-8.") from error
        return line.strip() if line else None

    def read_all(self) -> str:
        """Read standard input to its end. Raises: InvalidCliArgs if it is not UTF-8."""
        try:
            return self._in.read()
        except UnicodeDecodeError as error:
            raise InvalidCliArgs("Standard input is not UTF-8.") from error

    def _object(self, code: Exit, content: Mapping[str, Json], evidence: Mapping[str, Json]) -> Exit:
        from aop.core.text.json import pretty_json

        self._print_json(pretty_json(_shape(code, content, evidence)))
        return code

    def _print_json(self, text: bytes) -> None:
        # JSON is always UTF-8.
        _configured(self._out, encoding="utf-8", errors="strict")
        self._print(_json_as_visible(text.decode()))

    def _print(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(error.strerror) from error


def _as_visible(text: str) -> str:
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    from aop.core.text.visible import visible_lines

    return visible_lines(text)


def _json_as_visible(text: str) -> str:
    if text.isascii():
        return text
    from aop.core.text.visible import visible_json

    return visible_json(text)


def _shape(code: Exit, content: Mapping[str, Json], evidence: Mapping[str, Json]) -> Json:
    """Return the one shape of all JSON that a command prints; it is `ok` exactly if the exit code is 0."""
    return {"schema": OUTPUT_SCHEMA, "ok": code is Exit.OK, **content, "evidence": evidence}


def size_of(stream: TextIO | None) -> os.terminal_size:
    """Return the size of a terminal, or 80 columns and 24 lines if the stream is not a terminal or does not tell it."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno()) if stream else (0, 0)
    except (OSError, ValueError):
        columns, lines = 0, 0
    return os.terminal_size((columns or 80, lines or 24))


def _configured(stream: TextIO | None, *, errors: str, encoding: str | None = None) -> TextIO:
    """Return a stream with this encoding; a closed one is replaced by memory."""
    if stream is None:
        return StringIO()
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding=encoding, errors=errors)
    return stream
