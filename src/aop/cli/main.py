"""Entry point: imports one verb, runs it, and returns its exit code."""

from __future__ import annotations

import gc
import os
import stat
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from aop.cli.shell.exits import Exit
from aop.cli.shell.lean_imports import import_leanly
from aop.cli.shell.terminal import CallRefused, OutputLost, Terminal, answers_in_json
from aop.core.errors import Interrupted, Refusal
from aop.core.text.suggestions import did_you_mean
from aop.core.version import VERSION

if TYPE_CHECKING:  # imported leanly, in `main`
    import argparse

    from aop.cli.shell.parser import Parser

# The folder of the verbs, their heading in `aop --help`, and each verb with its description.
GROUPS = {
    ("begin", "start"): {
        "init": "write the configuration of this repository, after showing it",
        "doctor": "check this machine and this repository, and say how to fix problems",
        "web": "open the pages of this repository in your browser",
        "demo": "watch five features go from specs to merged commits, in a throw-away repository",
    },
    ("run", "run agents"): {
        "fix": "make a feature from one sentence, and run it",
        "new": "write the spec of a feature, from a sentence or in your editor",
        "run": "bring every spec to `ready to merge`, or to a question",
        "add": "add specs to the current run",
        "watch": "watch the features of the current run",
        "pause": "start no new turns and gates, of one feature or of all",
        "resume": "end a pause, and continue what a stopped or killed run left unfinished",
        "retry": "restart a failed or blocked feature where it stopped",
        "stop": "stop the current run, which `aop resume` continues, or one feature",
        "gated": "take one agent through a plan, one checked step at a time",
    },
    ("forge", "contracts from an idea or a repository"): {
        "forge": "make nine contracts for a project, edit them, and pin them for a build",
    },
    ("decide", "decide"): {
        "status": "show all features of this repository, or one in full",
        "inbox": "list the questions and approvals that wait for a person",
        "answer": "answer a question from the inbox",
        "notify": "send a test notification to every target of the policy",
        "review": "show everything that a feature changes, and the evidence for it",
        "approve": "look at a feature, and approve its tree for one merge",
        "merge": "look at a feature, approve it, and merge it into the base branch",
        "sync": "bring the checkout of the base branch up to the branch, and lose no local change",
    },
    ("change", "change a feature"): {
        "comment": "comment on lines, on a clause of the plan or on the whole feature; a draft until it is sent",
        "comments": "list your drafts and all comments that were sent, with what became of each",
        "request-changes": "send your drafts and a text; the next turn of the feature's agent gets them",
        "reject": "reject the approach of a feature; it is planned again",
        "take": "take your edits in a feature's worktree as a patch, after showing them",
        "undo": "go back one step of a feature, after listing its trees",
        "redo": "go forward again by one step that was undone",
        "rebase": "move a feature onto the base branch as it is now",
        "delete": "remove a feature, after listing what is removed",
    },
    ("tickets", "tickets"): {
        "ticket": "make a branch, a commit and a merge request from a ticket, and review them",
        "outbound": "list the ticket systems, or install their MCP servers",
    },
    ("agents", "agents, models and tools"): {
        "agents": "list the coding agents of this machine, install one, or test one",
        "brain": "ask a model one question, and report tokens, cost and time",
        "models": "list the prices of models, and check a file of your own",
        "token": "issue, list or revoke the tokens of agents",
        "mcp": "serve one agent over standard input and output",
        "serve": "serve the pages, and many agents, over HTTP on this machine",
        "tools": "list the tools, and write or check the files that describe them",
        "call": "call any tool through the gateway, and print its whole answer",
    },
    ("learn", "settings and help"): {
        "config": "list every key of the configuration, or explain one",
        "help": "show the help of a command, or write the man pages",
        "completion": "print a script that completes commands in bash, zsh or fish",
    },
    ("history", "history and cleanup"): {
        "logs": "print events and calls, and follow new ones",
        "report": "show waves, merges, failures, costs, times, the journal, or a past board",
        "replay": "show what happened in a run, step by step",
        "evidence": "prove that the record is unchanged, or pack the evidence on one feature",
        "record": "say where the record is, and move it into a database or back",
        "gc": "find what belongs to no feature or to a merged one, and remove it with `--apply`",
        "redact": "print a text without its secrets",
    },
    ("history", "many machines"): {
        "platform": "make the queues for workers in the database, list repositories in it, or say what is in them",
        "worker": "take gate runs and turns of other machines, or let a worker end after its current runs",
        "workers": "list the workers of all machines",
    },
}
_OWN = 0o077
"""The umask of the moment in which the umask is looked up: only setting it tells it."""
COMPLETER = "__complete"
"""The verb that completion scripts call; no help lists it."""
VERBS = {name: text for verbs in GROUPS.values() for name, text in verbs.items()}
MODULES = {
    name: f"aop.cli.{folder}.{name.replace('-', '_')}" for (folder, _), verbs in GROUPS.items() for name in verbs
}


class Verb(Protocol):
    """The module of a verb, or one of its actions."""

    def arguments(self, parser: Parser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace, terminal: Terminal) -> int:
        """Run the verb, and return its exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    # Under a umask of 000, as in some containers, AOP's own files would be open to every user.
    os.umask(os.umask(_OWN) | stat.S_IWOTH)
    words = list(sys.argv[1:] if argv is None else argv)
    terminal = Terminal(json=answers_in_json(words))
    try:
        return _run(words, terminal)
    except Refusal as refusal:
        return terminal.refused(refusal)
    except CallRefused as refused:
        return terminal.refuse(refused.error, refused.evidence)
    except KeyboardInterrupt:
        return terminal.refused(Interrupted("Stopped."))
    except BrokenPipeError:
        # The reader of our output is gone.
        _discard_output()
        return Exit.FAILED
    except OutputLost as lost:
        _discard_output()
        terminal.say(f"aop: The output could not be written: {lost}.")
        return Exit.FAILED
    except Exception as fault:  # noqa: BLE001 - the one place where a fault is caught
        from aop.cli.shell.faults import store_fault

        return terminal.refused(store_fault(fault, _repository_of(words)))


def _run(words: Sequence[str], terminal: Terminal) -> int:
    if words[:1] == [COMPLETER]:
        import_leanly()
        code: int = import_module("aop.cli.learn.completion").complete(words[1:], terminal)
        return code
    if not words or words[0] not in VERBS:
        return _without_verb(words)
    verb, parser = load_verb(words[0], words[1:])
    # Intermixed: an option may stand between the words, `aop call TOOL --role qa JSON`.
    arguments = parser.parse_intermixed_args(words[1:])
    terminal.json = answers_in_json([words[0]]) or arguments.json
    return verb.run(arguments, terminal)


def load_verb(name: str, words: Sequence[str] = ()) -> tuple[Verb, Parser]:
    """Return a verb and its parser; a verb with actions has one for each, which the words after it choose."""
    verb = _import_verb(name)
    if (action_of := getattr(verb, "action_of", None)) is not None:
        verb = action_of(words) or verb
    from aop.cli.shell.parser import Help, Parser

    text = VERBS[name]
    parser = Parser(prog=f"aop {name}", description=f"{text[0].upper()}{text[1:]}.", formatter_class=Help)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout: one object, or one on each line")
    parser.add_argument(
        "--repo", default=".", metavar="PATH", help="a folder of the managed repository (default: here)"
    )
    verb.arguments(parser)
    return verb, parser


def actions_of(name: str) -> dict[str, str]:
    """Return the actions of a verb that have a parser of their own, and what each does."""
    verb = import_module(MODULES[name])
    rows = verb.ACTIONS if hasattr(verb, "action_of") else {}
    return {action: text for action, (_, text) in rows.items()}


def _repository_of(words: Sequence[str]) -> str:
    """Return the folder that the words name, whether or not they could be parsed."""
    after = zip(words, [*words[1:], "."], strict=True)
    return next((word[7:] or value for word, value in after if word == "--repo" or word.startswith("--repo=")), ".")


def _discard_output() -> None:
    """Discard everything written to stdout from now on, also what Python flushes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _import_verb(name: str) -> Verb:
    # Imports make no garbage: not looking for any, now or at exit, saves a tenth of `aop status`.
    gc.disable()
    try:
        import_leanly()
        verb: Verb = import_module(MODULES[name])
        gc.freeze()
    finally:
        gc.enable()
    return verb


def _without_verb(words: Sequence[str]) -> int:
    parser = main_parser()
    if words and not words[0].startswith("-"):
        parser.error(f"there is no command `{words[0]}`.{did_you_mean(words[0], VERBS)} See `aop --help`")
    if verb := next((word for word in words if word in VERBS), None):
        parser.error(f"options come after the command: `aop {verb} {words[0]}`")
    parser.parse_args(words)
    parser.print_help()
    return Exit.OK


def main_parser() -> Parser:
    """Return the parser of a line without a verb; its help lists the verbs."""
    width = max(map(len, VERBS)) + 2
    commands = "\n".join(
        f"{title}:\n" + "".join(f"  {name:<{width}}{text}\n" for name, text in verbs.items())
        for (_, title), verbs in GROUPS.items()
    )
    import_leanly()
    from argparse import RawDescriptionHelpFormatter

    from aop.cli.shell.parser import Parser

    parser = Parser(
        prog="aop",
        usage="aop COMMAND [options]",
        description="A deterministic control plane for AI software engineers: agents propose, plain Python decides.",
        epilog=f"{commands}\n`aop COMMAND --help` shows the arguments of a command, with examples.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"aop {VERSION}")
    return parser


if __name__ == "__main__":
    code = main()
    # If Ctrl-C came while Python evaluated a text, as to make a dataclass, `python -m` would end by the signal and not
    # with our exit code, though we caught it. The next text that is evaluated makes it forget that.
    eval("0")  # noqa: S307
    sys.exit(code)
