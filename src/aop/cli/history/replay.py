"""`aop replay`: what happened in a run, step by step, from the record."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json, UnknownRun
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.record.port import JournalEntry
from aop.kernel.record.projections import DECISIONS, sentence_of

BEGAN = "run_began"
TURN = "turn_taken"
_LONGEST_FACT = 60


class RunRow(Struct, frozen=True, kw_only=True):
    """One run in the record."""

    run: str
    began: str
    ended: str
    features: tuple[str, ...]
    turns: int


class ReplayStep(Struct, frozen=True, kw_only=True):
    """One thing that happened in a run."""

    seq: int
    seconds: float
    """Since the first step."""
    feature_id: str
    actor: str
    event: str
    says: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run or a feature (default: list the runs)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the runs, or the steps of one."""
    with open_app(arguments, to_read=True) as app, app.record.read() as view:
        journal = tuple(view.journal())
    if arguments.run is None:
        rows = runs_in(journal)
        lines = [f"{row.run}  {row.began}  {count(row.turns, 'turn')}  {', '.join(row.features)}" for row in rows]
        listed: Json = {"runs": msgspec.to_builtins(rows)}
        return terminal.result(listed, "\n".join(lines), empty="No runs yet.")
    steps = steps_of(arguments.run, journal)
    data: Json = {"run": arguments.run, "steps": msgspec.to_builtins(steps)}
    return terminal.result(data, "\n".join(map(_line, steps)))


def runs_in(journal: Iterable[JournalEntry]) -> list[RunRow]:
    """Return every run with at least one turn, oldest first."""
    entries = tuple(journal)
    names = dict.fromkeys(str(entry.event.payload["run"]) for entry in entries if entry.event.kind == TURN)
    return [_row(name, entries) for name in names]


def _row(name: str, journal: Sequence[JournalEntry]) -> RunRow:
    own = _entries_of_run(name, journal)
    return RunRow(
        run=name,
        began=own[0].event.at,
        ended=own[-1].event.at,
        features=tuple(sorted({entry.event.feature_id for entry in own if entry.event.feature_id})),
        turns=sum(1 for entry in own if entry.event.kind == TURN),
    )


def steps_of(name: str, journal: Sequence[JournalEntry]) -> list[ReplayStep]:
    """Return the steps of a run, or of a feature. Raises: UnknownRun."""
    own = _entries_of_run(name, journal) or [entry for entry in journal if entry.event.feature_id == name]
    if not own:
        raise UnknownRun(name, {each.event.feature_id for each in journal if each.event.feature_id})
    began = datetime.fromisoformat(own[0].event.at)
    return [_step(entry, began) for entry in own]


def _entries_of_run(name: str, journal: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Return the events of a run, and what people did to its features meanwhile."""
    # All steps of a feature's pipeline share the start of their operation ids, and a turn names its run.
    turns = [entry for entry in journal if entry.event.kind == TURN and entry.event.payload["run"] == name]
    pipelines = {_pipeline(entry) for entry in turns}
    own = [entry.seq for entry in journal if _pipeline(entry) in pipelines]
    features = {entry.event.feature_id for entry in turns}
    if not own:
        return []
    between = (entry for entry in journal if own[0] <= entry.seq <= own[-1] and entry.event.feature_id in features)
    began = (entry for entry in journal if entry.event.kind == BEGAN and entry.event.payload["run"] == name)
    return [*began, *between]


def _pipeline(entry: JournalEntry) -> str:
    return ".".join(entry.event.operation_id.split(".")[:3])


def _step(entry: JournalEntry, began: datetime) -> ReplayStep:
    event = entry.event
    return ReplayStep(
        seq=entry.seq,
        seconds=round((datetime.fromisoformat(event.at) - began).total_seconds(), 3),
        feature_id=event.feature_id or "",
        actor=event.actor,
        event=event.kind,
        says=visible(sentence_of(entry) if event.kind in DECISIONS else _facts(entry)),
    )


def _facts(entry: JournalEntry) -> str:
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in entry.event.payload.items()
    }
    return " ".join(f"{name}={' '.join(text.split())[:_LONGEST_FACT]}" for name, text in texts.items())


def _line(step: ReplayStep) -> str:
    return f"#{step.seq:<5} +{step.seconds:8.2f} s  {step.feature_id}  {step.actor}  {step.event}: {step.says}".rstrip()
