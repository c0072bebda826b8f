"""Man pages: the help of each command as troff, from its parser and examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from aop.cli.shell.exits import EXIT_WORDS
from aop.cli.shell.parser import Parser
from aop.core.version import VERSION

_ABOUT = "A deterministic control plane for AI software engineers: agents propose, plain Python decides."


def verb_page(parser: Parser, text: str) -> str:
    """Return the page of one command."""
    usage = " ".join(parser.format_usage().removeprefix("usage:").split())
    words = [action for action in parser.actions if not action.option_strings]
    options = [action for action in parser.actions if action.option_strings]
    return _page(
        f"{parser.prog} {parser.action}".strip().replace(" ", "-"),
        text,
        {
            "SYNOPSIS": [_text(usage)],
            "DESCRIPTION": [_text(parser.description or "")],
            "ARGUMENTS": _entries((_heading(action), _meaning(action)) for action in words),
            "OPTIONS": _entries((_heading(action), _meaning(action)) for action in options),
            "EXAMPLES": [".nf", *map(_text, parser.examples), ".fi"] if parser.examples else [],
        },
    )


def main_page(groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page that lists the commands, by their groups."""
    sections = {"SYNOPSIS": [_text("aop COMMAND [options]")], "DESCRIPTION": [_text(_ABOUT)]}
    for title, verbs in groups.items():
        sections[title.upper()] = _entries((f"aop {name}", text) for name, text in verbs.items())
    return _page("aop", "let coding agents work on a repository, and decide what counts", sections)


def _page(name: str, text: str, sections: Mapping[str, list[str]]) -> str:
    lines = [
        f'.TH "{_text(name.upper())}" "1" "" "aop {VERSION}" "AOP"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(text)}",
    ]
    codes = _entries((str(int(code)), words) for code, words in EXIT_WORDS.items())
    other = [] if name == "aop" else [".BR aop (1)"]
    for title, below in {**sections, "EXIT STATUS": codes, "SEE ALSO": other}.items():
        lines += [f".SH {_text(title)}", *below] if below else []
    return "".join(f"{line}\n" for line in lines)


def _entries(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for heading, meaning in rows for line in (".TP", f"\\fB{_text(heading)}\\fR", _text(meaning))]


def _heading(action: argparse.Action) -> str:
    value = value_name(action)
    if not action.option_strings:
        return value
    return ", ".join(f"{option} {value}".rstrip() for option in action.option_strings)


def value_name(action: argparse.Action) -> str:
    """Return the name of the value that an option or a word takes; nothing for a switch."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _meaning(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _text(text: str) -> str:
    """Return a line that troff prints unchanged."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
