"""`aop logs`: every call and every event, in the order in which they happened, and then those that come."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from aop.adapters.reporting.call_log import CallReader
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json, UnknownFeature
from aop.core.ids import FeatureId, feature_id
from aop.core.text.visible import visible
from aop.kernel.ports.call_log import NotedCall
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Event, JournalEntry
from aop.wiring.build import CALL_LOG, App

LOOK_AGAIN_SECONDS = 0.2

Happening: TypeAlias = NotedCall | JournalEntry


def arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes."""
    parser.add_argument("--follow", action="store_true", help="go on with what happens next, until you stop it")
    parser.add_argument("--feature", metavar="FEATURE", help="only what concerns this one")
    parser.add_argument("--agent", metavar="FEATURE", help="what the agents of this one say, and nothing else")
    parser.add_argument("--since", type=int, default=0, metavar="N", help="only what came after journal entry number N")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print, and follow."""
    if arguments.since < 0:
        raise InvalidCliArgs("`--since` takes the number of a journal entry.")
    if arguments.agent is not None:
        return _agent(arguments, terminal)
    feature = None if arguments.feature is None else feature_id(arguments.feature)
    told = False
    with open_app(arguments, to_read=True) as app:
        _refuse_unknown(app, feature)
        for happening in _happenings(app, feature, arguments.since, follow=arguments.follow):
            told = True
            if terminal.json:
                terminal.line(_plain(happening))
            else:
                terminal.text(_line(happening))
    if not told:
        terminal.say("Nothing of that kind happened.")
    return Exit.OK


def _agent(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.cli.history.agent_logs import show_agent

    if arguments.feature is not None or arguments.since:
        raise InvalidCliArgs("`--agent` goes with neither `--feature` nor `--since`.")
    feature = feature_id(arguments.agent)
    with open_app(arguments, to_read=True) as app:
        show_agent(app, feature, terminal, follow=arguments.follow)
    return Exit.OK


def _refuse_unknown(app: App, feature: FeatureId | None) -> None:
    """Refuse a feature that there never was; one that was deleted has a history.

    Raises: UnknownFeature.
    """
    if feature is None:
        return
    with app.record.read() as view:
        is_known = view.get(FeatureState, feature) is not None or any(view.journal(feature_id=feature, newest=1))
    if not is_known:
        raise UnknownFeature(feature)


def _happenings(app: App, feature: FeatureId | None, since: int, *, follow: bool) -> Iterator[Happening]:
    reader = CallReader(app.root / CALL_LOG)
    seen, begin = since, _event_at(app, since)
    calls = [*reader.older(), *reader.new()]
    while True:
        with app.record.read() as view:
            entries = list(view.journal(after=seen, feature_id=feature))
        seen = max([seen, *(entry.seq for entry in entries)])
        noted = [call for call in calls if _is_later(call, begin) and feature in (None, call.feature_id)]
        happened: list[Happening] = [*entries, *noted]
        yield from sorted(happened, key=_place)
        if not follow:
            return
        app.gateway.kernel.clock.pause(LOOK_AGAIN_SECONDS)
        calls = list(reader.new())


def _event_at(app: App, seq: int) -> Event | None:
    if seq == 0:
        return None
    with app.record.read() as view:
        for entry in view.journal(after=seq - 1, limit=1):
            return entry.event
    raise InvalidCliArgs(f"The journal has no entry {seq}.", hint="`aop logs` shows their numbers.")


def _is_later(call: NotedCall, event: Event | None) -> bool:
    return event is None or (call.at >= event.at and call.operation_id != event.operation_id)


def _place(happening: Happening) -> tuple[str, int]:
    """Return what orders happenings: a call ends after the events that it wrote."""
    if isinstance(happening, JournalEntry):
        return happening.event.at, happening.seq
    return happening.at, 1 << 62


def _plain(happening: Happening) -> dict[str, Json]:
    kind = "event" if isinstance(happening, JournalEntry) else "call"
    return {"type": kind, **msgspec.to_builtins(happening)}


def _line(happening: Happening) -> str:
    if isinstance(happening, JournalEntry):
        event = happening.event
        facts = " ".join(f"{name}={_short(value)}" for name, value in event.payload.items())
        what = f"{event.at}  #{happening.seq:<6} {event.actor}  {event.kind}  {event.feature_id or '-'}  {facts}"
    else:
        call = happening
        took = f"{call.milliseconds:.1f} ms"
        what = f"{call.at}  {'call':<7} {call.actor}  {call.tool}  {call.feature_id or '-'}  {call.outcome}  {took}"
    return visible(what.rstrip())


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 80 else f"{one_line[:79]}…"
