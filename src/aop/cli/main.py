"""The entry point: finds the verb, imports only that one, and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from aop.cli.exits import Exit
from aop.cli.lean_imports import import_leanly
from aop.cli.terminal import OutputLost, Terminal
from aop.core.errors import Refusal
from aop.core.version import VERSION

if TYPE_CHECKING:  # `main` imports it, in its own way
    import argparse

VERBS = {
    "init": "write the configuration of this repository, after showing it",
    "doctor": "check this machine and this repository, and say how to repair what is wrong",
    "demo": "watch five features go from specs to merged commits, in a throw-away repository",
    "run": "bring every spec to `ready to merge`, or to a question",
    "add": "put specs into the run that is going on",
    "retry": "let a failed or blocked feature begin again where it was",
    "pause": "let no new turn and no new gate begin, of one feature or of all",
    "resume": "take a pause back, and go on with what a stopped or killed run left on its way",
    "stop": "end the supervisor of this repository",
    "status": "list all features of this repository",
    "watch": "see a run while it goes on, one line for each feature",
    "replay": "tell what happened in a run, step by step, from the record",
    "inbox": "list what people are asked",
    "answer": "answer a question of the inbox",
    "notify": "try whether people are told that they are needed",
    "tools": "list the tools, and write or check the files that describe them to other programs",
    "call": "call any tool through the gateway, and print its whole answer",
    "review": "show everything that a feature changes, and what proves it, before you approve",
    "approve": "look at a feature and approve its tree for one merge",
    "merge": "merge an approved feature into the base branch",
    "gated": "let one agent work through a plan, one judged step at a time",
    "token": "hand out, list or revoke the tokens that agents come in with",
    "mcp": "serve one agent over standard input and output",
    "serve": "serve many agents over HTTP on this machine",
    "logs": "print every call and every event, and follow what happens",
    "evidence": "prove that the record was not changed, or pack everything on one feature",
    "delete": "remove a feature, after showing what goes; worktree and branch only if you say so",
    "undo": "go back to an earlier tree of a feature, after showing them",
    "gc": "find what belongs to no feature any more, and remove it if you say so",
    "ticket": "make a branch, a commit and a merge request from a ticket, and review them",
    "agents": "list the coding agents of this machine, install one, or try one",
    "outbound": "list the systems around tickets, or install their MCP servers",
    "brain": "ask a model one question, and say what it took",
    "redact": "print a text without its secrets, to try the rules",
}


class Verb(Protocol):
    """What each module of a verb has."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what the verb takes."""

    def run(self, arguments: argparse.Namespace, terminal: Terminal) -> int:
        """Do it, and return an exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in VERBS:
        return _without_verb(words)
    verb = _imported(words[0])
    from aop.cli.parsing import Help, Parser

    parser = Parser(prog=f"aop {words[0]}", description=VERBS[words[0]].capitalize() + ".", formatter_class=Help)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout: one object, or one a line")
    parser.add_argument(
        "--repo", default=".", metavar="PATH", help="a folder of the managed repository (default: here)"
    )
    verb.arguments(parser)
    # Intermixed, so that an option may stand between the words: `aop call TOOL --role qa JSON`.
    arguments = parser.parse_intermixed_args(words[1:])
    terminal = Terminal(json=arguments.json)
    try:
        return verb.run(arguments, terminal)
    except Refusal as refusal:
        return terminal.refused(refusal)
    except KeyboardInterrupt:
        terminal.say("aop: stopped.")
        return 130
    except BrokenPipeError:
        # The reader of our output is gone.
        _write_no_more()
        return Exit.FAILED
    except OutputLost as lost:
        _write_no_more()
        terminal.say(f"aop: The output could not be written: {lost}.")
        return Exit.FAILED
    except Exception as fault:  # noqa: BLE001 - the one place where a breakage is caught
        return _report_fault(fault, terminal, arguments.repo)


def _write_no_more() -> None:
    """Let nothing go to stdout any more, not even what Python still has to write while it shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _imported(name: str) -> Verb:
    # Nothing that an import makes is ever garbage: not to look for any, now or at exit, saves a tenth of `aop status`.
    gc.disable()
    try:
        import_leanly()
        verb: Verb = import_module(f"aop.cli.{name}")
        gc.freeze()
    finally:
        gc.enable()
    return verb


def _without_verb(words: Sequence[str]) -> int:
    verbs = "".join(f"  {name:<10}{text}\n" for name, text in VERBS.items())
    import_leanly()
    from argparse import RawDescriptionHelpFormatter

    from aop.cli.parsing import Parser

    parser = Parser(
        prog="aop",
        usage="aop COMMAND [options]",
        description="A deterministic control plane for AI software engineers: agents propose, plain Python decides.",
        epilog=f"commands:\n{verbs}\n`aop COMMAND --help` says what each takes.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"aop {VERSION}")
    if words and not words[0].startswith("-"):
        parser.error(f"there is no command `{words[0]}`{_meant(words[0])}; `aop --help` lists them")
    if verb := next((word for word in words if word in VERBS), None):
        parser.error(f"options come after the command: `aop {verb} {words[0]}`")
    parser.parse_args(words)
    parser.print_help()
    return Exit.OK


def _meant(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, VERBS, n=1)
    return f"; do you mean `{near[0]}`" if near else ""


def _report_fault(fault: Exception, terminal: Terminal, folder: str) -> int:
    from aop.cli.faults import kept_fault

    return terminal.refused(kept_fault(fault, folder))


if __name__ == "__main__":
    sys.exit(main())
