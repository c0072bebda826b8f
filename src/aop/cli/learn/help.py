"""`aop help`: show the help of a command, or write the man pages."""

from __future__ import annotations

import argparse
from pathlib import Path

from aop.adapters.files.user_files import put_file
from aop.cli.learn.man_pages import main_page, verb_page
from aop.cli.main import GROUPS, VERBS, actions_of, load_verb, main_parser
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="(default: list the commands)")
    parser.add_argument("action", metavar="ACTION", nargs="?", help="one action of `aop forge`")
    parser.add_argument("--man", type=Path, metavar="FOLDER", help="write the man pages into this folder")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the help, or write the pages."""
    name = arguments.command
    if name is not None and name not in VERBS:
        meant = did_you_mean(name, VERBS)
        raise InvalidCliArgs(f"There is no command `{visible(name)[:100]}`.{meant}", hint="See `aop help`.")
    actions = {} if arguments.action is None else actions_of(name)
    if arguments.action is not None and arguments.action not in actions:
        meant = did_you_mean(arguments.action, actions)
        message = f"`aop {name}` has no help on `{visible(arguments.action)[:100]}`.{meant}"
        raise InvalidCliArgs(message, hint=f"See `aop help {name}`.")
    if arguments.man is not None:
        return _write_pages(arguments.man, [name] if name else list(VERBS), terminal)
    words = [] if arguments.action is None else [arguments.action]
    text = (load_verb(name, words)[1] if name else main_parser()).format_help()
    return terminal.result({"command": name, "text": text}, text.rstrip("\n"))


def _write_pages(folder: Path, names: list[str], terminal: Terminal) -> int:
    pages = {f"aop-{name}.1": verb_page(load_verb(name)[1], VERBS[name]) for name in names}
    for name in names:
        for action, text in actions_of(name).items():
            pages[f"aop-{name}-{action}.1"] = verb_page(load_verb(name, [action])[1], text)
    if len(names) == len(VERBS):
        pages["aop.1"] = main_page({title: verbs for (_, title), verbs in GROUPS.items()})
    folder.mkdir(parents=True, exist_ok=True)
    for file, page in pages.items():
        put_file(folder / file, page.encode(), replace=True)
    message = f"Wrote {count(len(pages), 'man page')} into {folder}. Read one with: man {folder / min(pages)}"
    return terminal.done({"written": [str(folder / file) for file in pages]}, message)
