"""Log of a build at the terminal: `aop forge log`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from aop.cli.forge.action import Action
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.core.text.visible import visible

if TYPE_CHECKING:
    from aop.kernel.record.port import JournalEntry
    from aop.wiring.build import App

LOOK_AGAIN_SECONDS = 0.2
LONGEST_FACTS = 300


def _declare_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("build", metavar="BUILD", help="the id of the build, as `aop forge show PROJECT` lists it")
    parser.add_argument("--follow", action="store_true", help="keep printing new entries until the build has ended")


def log(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print what happened in a build, oldest first."""
    from aop.forge.builds.cycle.lookup import the_cycle

    with open_app(arguments, to_read=True) as app:
        with app.record.read() as view:
            the_cycle(view, arguments.build, app.person)
        for entry in _entries(app, arguments.build, follow=arguments.follow):
            terminal.line(msgspec.to_builtins(entry), _line(entry))
    return Exit.OK


def _entries(app: App, build_id: str, *, follow: bool) -> Iterator[JournalEntry]:
    from aop.forge.builds.cycle.lookup import LIVING, the_cycle

    seen = 0
    while True:
        with app.record.read() as view:
            entries = list(view.journal(after=seen, feature_id=FeatureId(build_id)))
            is_over = the_cycle(view, build_id, app.person).status not in LIVING
        yield from entries
        seen = max([seen, *(entry.seq for entry in entries)])
        if not follow or is_over:
            return
        app.gateway.kernel.clock.pause(LOOK_AGAIN_SECONDS)


def _line(entry: JournalEntry) -> str:
    event = entry.event
    facts = " ".join(
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in event.payload.items()
        if name not in ("build_id", "project_id")
    )
    return visible(f"{event.at}  #{entry.seq:<6} {event.kind}  {facts[:LONGEST_FACTS]}".rstrip())


ACTIONS: Mapping[str, Action] = {"log": Action(_declare_log, log)}
