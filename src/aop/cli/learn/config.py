"""`aop config`: list every key of the configuration, or explain one."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from aop.adapters.config.locations import FOLDER
from aop.adapters.config.reader import read_config_keys
from aop.adapters.git.repository import open_repository
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.kernel.contracts.config_keys import DEFAULT, ConfigKey
from aop.kernel.contracts.environment_words import VARIABLES

_LONGEST_VALUE = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "key", metavar="KEY", nargs="?", help="a key such as `worktree.link`, or a section (default: list every key)"
    )
    parser.add_argument(
        "--environment", action="store_true", help="list the environment variables that AOP reads, and which are set"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, or explain."""
    if arguments.environment:
        return _list_variables(terminal)
    repository = open_repository(Path(arguments.repo), os.environ)
    keys = read_config_keys(repository.branches.head, repository.objects, repository.root)
    if arguments.key is None:
        data = {"keys": msgspec.to_builtins(keys)}
        footer = "*: set in the file. Explain a key with: aop config KEY"
        return terminal.result(data, "\n".join([*_table(keys), "", footer]))
    # An error may name an item of a list, `worktree.setup[0].cmd`: the list explains its items.
    name = arguments.key.partition("[")[0]
    for key in keys:
        if key.key == name:
            return terminal.result({**msgspec.to_builtins(key), "example": key.example()}, _explanation(key))
    return _list_section(name, keys, terminal)


def _list_section(name: str, keys: Sequence[ConfigKey], terminal: Terminal) -> int:
    below = [key for key in keys if key.key.startswith(f"{name}.")]
    if not below:
        message = f"There is no key `{visible(name)[:100]}`.{_suggestion(name, keys)}"
        raise InvalidCliArgs(message, hint="List the keys with `aop config`.")
    return terminal.result({"keys": msgspec.to_builtins(below)}, "\n".join(_table(below)))


def _suggestion(name: str, keys: Sequence[ConfigKey]) -> str:
    known = [key.key for key in keys]
    return did_you_mean(next((key for key in known if key.endswith(f".{name}")), name), known)


def _table(keys: Sequence[ConfigKey]) -> list[str]:
    lines: list[str] = []
    for file, members in groupby(keys, lambda key: key.file):
        rows = list(members)
        source = next((row.source for row in rows if row.source != DEFAULT), "every key has its default")
        lines += [*([""] if lines else []), f"{file} ({source})", *map(_row, rows)]
    return lines


def _row(key: ConfigKey) -> str:
    return f"{' ' if key.source == DEFAULT else '*'} {key.key}: {_short(key.value)}"


def _short(value: Json) -> str:
    text = _value_text(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _value_text(value: Json) -> str:
    if value is None:
        return "not set"
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def _explanation(key: ConfigKey) -> str:
    source = "the default" if key.source == DEFAULT else key.source
    rows = [
        ("Value", f"{_value_text(key.value)} ({source})"),
        ("Default", "none" if key.default is None else _value_text(key.default)),
        ("Type", key.type),
        ("Allowed", ", ".join(map(_value_text, key.choices))),
    ]
    of_items = [f"  {name}: {text}" for name, text in key.item_keys.items()]
    return "\n".join(
        [
            key.key,
            *textwrap.wrap(key.description, 78, initial_indent="  ", subsequent_indent="  "),
            "",
            *(f"{name:<8} {text}" for name, text in rows if text),
            *(["", "Each item has:", *of_items] if of_items else []),
            "",
            f"Set it in {FOLDER}/{key.file}, for example:",
            textwrap.indent(key.example().rstrip("\n"), "  "),
        ]
    )


def _list_variables(terminal: Terminal) -> int:
    rows = {name: bool(os.environ.get(name)) for name in VARIABLES}
    data: list[Json] = [{"name": name, "set": rows[name], "description": VARIABLES[name]} for name in VARIABLES]
    width = max(map(len, VARIABLES))
    lines = [f"{'*' if rows[name] else ' '} {name:<{width}}  {text}" for name, text in VARIABLES.items()]
    # A value may be a secret, and is never printed.
    return terminal.result({"variables": data}, "\n".join([*lines, "", "*: set in this shell."]))
