"""The entry point: finds the verb, imports only that one, and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from aop.cli.lean_imports import import_leanly
from aop.cli.shell.exits import Exit
from aop.cli.shell.terminal import CallRefused, OutputLost, Terminal
from aop.core.errors import Refusal
from aop.core.version import VERSION

if TYPE_CHECKING:  # `main` imports it, in its own way
    import argparse

# The folder of the verbs, the heading above them in `aop --help`, and each verb with what it does.
GROUPS = {
    ("begin", "to begin"): {
        "init": "write the configuration of this repository, after showing it",
        "doctor": "check this machine and this repository, and say how to repair what is wrong",
        "demo": "watch five features go from specs to merged commits, in a throw-away repository",
    },
    ("run", "to let agents work"): {
        "run": "bring every spec to `ready to merge`, or to a question",
        "add": "put specs into the run that is going on",
        "watch": "see a run while it goes on, one line for each feature",
        "pause": "let no new turn and no new gate begin, of one feature or of all",
        "resume": "take a pause back, and go on with what a stopped or killed run left on its way",
        "retry": "let a failed or blocked feature begin again where it was",
        "stop": "end the run that is going on; `aop resume` takes it up again",
        "gated": "let one agent work through a plan, one judged step at a time",
    },
    ("decide", "to decide"): {
        "status": "list all features of this repository",
        "inbox": "list what people are asked",
        "answer": "answer a question of the inbox",
        "notify": "send a test message the way that people are told they are needed",
        "review": "show everything that a feature changes, and what proves it, before you approve",
        "approve": "look at a feature and approve its tree for one merge",
        "merge": "merge an approved feature into the base branch",
        "undo": "go back to an earlier tree of a feature, after showing them",
        "delete": "remove a feature, after showing what goes; worktree and branch only if you say so",
    },
    ("tickets", "tickets"): {
        "ticket": "make a branch, a commit and a merge request from a ticket, and review them",
        "outbound": "list the systems around tickets, or install their MCP servers",
    },
    ("agents", "agents, models and tools"): {
        "agents": "list the coding agents of this machine, install one, or try one",
        "brain": "ask a model one question, and say what it took",
        "token": "hand out, list or revoke the tokens that agents come in with",
        "mcp": "serve one agent over standard input and output",
        "serve": "serve many agents over HTTP on this machine",
        "tools": "list the tools, and write or check the files that describe them to other programs",
        "call": "call any tool through the gateway, and print its whole answer",
    },
    ("history", "to look back and clean up"): {
        "logs": "print every call and every event, and follow what happens",
        "replay": "tell what happened in a run, step by step, from the record",
        "evidence": "prove that the record was not changed, or pack everything on one feature",
        "gc": "find what belongs to no feature any more, and remove it if you say so",
        "redact": "print a text without its secrets, to try the rules",
    },
}
VERBS = {name: text for verbs in GROUPS.values() for name, text in verbs.items()}
FOLDERS = {name: folder for (folder, _), verbs in GROUPS.items() for name in verbs}


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
    from aop.cli.shell.parser import Help, Parser

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
    except CallRefused as refused:
        return terminal.refuse(refused.error, refused.evidence)
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
        verb: Verb = import_module(f"aop.cli.{FOLDERS[name]}.{name}")
        gc.freeze()
    finally:
        gc.enable()
    return verb


def _without_verb(words: Sequence[str]) -> int:
    commands = "\n".join(
        f"{title}:\n" + "".join(f"  {name:<10}{text}\n" for name, text in verbs.items())
        for (_, title), verbs in GROUPS.items()
    )
    import_leanly()
    from argparse import RawDescriptionHelpFormatter

    from aop.cli.shell.parser import Parser

    parser = Parser(
        prog="aop",
        usage="aop COMMAND [options]",
        description="A deterministic control plane for AI software engineers: agents propose, plain Python decides.",
        epilog=f"{commands}\n`aop COMMAND --help` says what each takes, with examples.",
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
    from aop.cli.shell.faults import kept_fault

    return terminal.refused(kept_fault(fault, folder))


if __name__ == "__main__":
    sys.exit(main())
