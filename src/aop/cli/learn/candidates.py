"""Candidates: the words that can stand where a shell completes a command line."""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from aop.cli.learn.man_pages import value_name
from aop.cli.main import VERBS, load_verb
from aop.cli.shell.parser import Parser
from aop.core.errors import Fault, Refusal
from aop.core.roles import Role
from aop.core.text.visible import visible
from aop.kernel.gateway.tokens import TOKEN_ROLES
from aop.wiring.build import App, Settings, build

Rows: TypeAlias = Iterable[tuple[str, str]]
"""Words, each with what it is."""


def candidates(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return what the last of the words after `aop` can become; an empty list leaves it to the shell."""
    *before, begun = words or ("",)
    try:
        rows = _rows(before, begun)
        return [(word, about) for word, about in rows if word.startswith(begun)]
    # Where no repository can be read there is nothing to offer, and a shell is no place for an error.
    except (Refusal, Fault, OSError, sqlite3.Error):
        return []


def _rows(before: Sequence[str], begun: str) -> Rows:
    if not before:
        return VERBS.items()
    if before[0] not in VERBS:
        return ()
    _, parser = load_verb(before[0], before[1:])
    folder = next((value for option, value in pairwise(before) if option == "--repo"), ".")
    line = _Line(parser, before[1:], folder)
    if line.open_option is not None:
        return line.values(line.open_option)
    if begun.startswith("-"):
        return line.options()
    return line.words()


class _Line:
    """A command line up to the word that is being completed."""

    def __init__(self, parser: Parser, before: Sequence[str], folder: str) -> None:
        self._parser = parser
        self._verb = parser.prog.removeprefix("aop ")
        self._folder = folder
        self._by_option = {option: action for action in parser.actions for option in action.option_strings}
        self.open_option: argparse.Action | None = None
        self._given: list[str] = []
        for word in before:
            if self.open_option is not None:
                self.open_option = None
            elif word.startswith("-"):
                action = self._by_option.get(word)
                self.open_option = action if action is not None and action.nargs != 0 else None
            else:
                self._given.append(word)

    def options(self) -> Rows:
        """Return the options of the command."""
        return [(option, action.help or "") for option, action in self._by_option.items() if option != "-h"]

    def words(self) -> Rows:
        """Return what can be the next word."""
        open_words = [action for action in self._parser.actions if not action.option_strings]
        if not open_words:
            return ()
        position = len(self._given)
        if position < len(open_words):
            return self.values(open_words[position], position)
        return self.values(open_words[-1], position) if open_words[-1].nargs in ("*", "+") else ()

    def values(self, action: argparse.Action, position: int = 0) -> Rows:
        """Return the values of an option or of a word."""
        if action.choices:
            return [(str(choice), "") for choice in action.choices]
        if not action.option_strings and (self._verb, position) in _BY_POSITION:
            return [(word, "") for word in _BY_POSITION[self._verb, position]()]
        name = "FEATURE" if action.dest == "feature" else value_name(action)
        if (static := _STATIC.get(action.dest) or _STATIC.get(name)) is not None:
            return static()
        live = _LIVE.get("QUESTION" if (self._verb, name) == ("answer", "ID") else name)
        if live is None:
            return ()
        with build(Path(self._folder), Settings.from_env(os.environ), to_read=True) as app:
            return list(live(app))


def _providers() -> list[str]:
    from aop.kernel.config.agents import Provider

    return [provider.value for provider in Provider]


def _hosts() -> list[str]:
    from aop.cli.agents.mcp_hosts import HOSTS

    return list(HOSTS)


def _tools() -> Rows:
    from aop.wiring.catalogue import CATALOGUE

    return [(tool.name, tool.summary) for tool in CATALOGUE.values()]


def _strategies() -> Rows:
    from aop.kernel.config.policy import MergeStrategy

    return [(strategy.value, "") for strategy in MergeStrategy]


_BY_POSITION: Mapping[tuple[str, int], Callable[[], Iterable[str]]] = {
    ("agents", 0): lambda: ("install", "show", "test"),
    ("agents", 1): _providers,
    ("mcp", 0): lambda: ("config",),
    ("mcp", 1): _hosts,
    ("outbound", 0): lambda: ("install",),
    ("outbound", 1): lambda: ("jira", "confluence", "gitlab"),
    ("outbound", 2): lambda: ("jira", "confluence", "gitlab"),
    ("token", 0): lambda: (*sorted(TOKEN_ROLES), "list", "revoke"),
}
"""Words of commands whose parser takes any."""


def _config_keys() -> Rows:
    from aop.kernel.contracts.config_words import KEY_WORDS, SECTION_WORDS

    return [(key, text) for key, text in {**SECTION_WORDS, **KEY_WORDS}.items() if "[]" not in key and "<" not in key]


_STATIC: Mapping[str, Callable[[], Rows]] = {
    "COMMAND": VERBS.items,
    "KEY": _config_keys,
    "ROLE": lambda: [(role.value, "") for role in Role],
    "TOOL": _tools,
    "agent_provider": lambda: [(provider, "") for provider in _providers()],
    "strategy": _strategies,
}
"""Values that no repository decides, by the destination or the name of an argument."""


def _features(app: App) -> Rows:
    features = app.gateway.call(app.person, "report.dashboard", {}).data["features"]
    return [(row["feature_id"], row["status"]) for row in features]


def _questions(app: App) -> Rows:
    questions = app.gateway.call(app.person, "inbox.list", {}).data["questions"]
    return [(each["question_id"], visible(" ".join(each["text"].split()))[:60]) for each in questions]


def _runs(app: App) -> Rows:
    from aop.cli.history.replay import runs_in

    with app.record.read() as view:
        return [(run.run, run.began) for run in runs_in(view.journal())]


def _projects(app: App) -> Rows:
    projects = app.gateway.call(app.person, "forge.project_list", {}).data["projects"]
    return [(each["project_id"], each["status"]) for each in projects]


def _keys(app: App) -> Rows:
    keys = app.gateway.call(app.person, "forge.key_list", {}).data["keys"]
    return [(each["prefix"], visible(each["label"])) for each in keys if not each["revoked_at"]]


_LIVE: Mapping[str, Callable[[App], Rows]] = {
    "FEATURE": _features,
    "PREFIX": _keys,
    "PROJECT": _projects,
    "QUESTION": _questions,
    "RUN": _runs,
}
"""Values that are read from the record, by the name of an argument."""
