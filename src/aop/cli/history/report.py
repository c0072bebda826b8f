"""`aop report`: plans, merges, failures, costs, times, journal, and a past board."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.screens.styles import add_colour_argument, screen_of
from aop.cli.screens.tables import Cell, Column, command_cell, table
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.clock import duration
from aop.core.errors import InvalidCliArgs, Json
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import spending_text

Row = Sequence[str | Cell]
Said = argparse.Namespace


class Report(Struct, frozen=True, kw_only=True):
    """One report: its tool, and how a terminal shows the answer."""

    tool: str
    titles: tuple[str, ...]
    rows: Callable[[Any], Iterator[Row]]
    arguments: Callable[[Said], dict[str, Json]] = lambda _said: {}
    empty: str
    rest: Callable[[Said, Any], str] = lambda _said, _data: ""
    """Returns what the answer leaves out, and how to see it; empty if it is whole."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("report", choices=sorted(REPORTS), help="what to show")
    parser.add_argument("text", metavar="TEXT", nargs="*", help="the words to search for (journal, search)")
    parser.add_argument("--feature", metavar="FEATURE", help="journal: only entries of this feature; versions: of it")
    parser.add_argument(
        "--between", nargs=2, type=int, metavar=("A", "B"), help="versions: the changes from version A to version B"
    )
    parser.add_argument("--kind", metavar="KIND", default="", help="journal: only entries of this kind")
    parser.add_argument("--before", type=int, metavar="N", help="journal: only entries before number N")
    parser.add_argument("--at", type=int, metavar="N", help="board: as it was at number N of the journal")
    parser.add_argument("--mark", metavar="FINGERPRINT", help="failures: note that this one is known, as TEXT says")
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask for the report, and print it."""
    if arguments.mark is not None:
        return _mark(arguments, terminal)
    report = REPORTS[arguments.report]
    screen = screen_of(terminal, arguments.color, os.environ)
    with open_app(arguments, to_read=True) as app:
        data = call_tool(app, report.tool, report.arguments(arguments)).data
    rows = [[each if isinstance(each, Cell) else Cell(_line(each)) for each in row] for row in report.rows(data)]
    columns = [Column(title=title, shrinks=at == 0) for at, title in enumerate(report.titles)]
    lines = table(columns, rows, screen.width, screen.paint) if rows else []
    rest = report.rest(arguments, data)
    code = terminal.result(data, "\n".join(lines), empty="" if rest else report.empty)
    if rest and not terminal.json:
        terminal.say(rest)
    return code


def _mark(arguments: Said, terminal: Terminal) -> int:
    if arguments.report != "failures":
        raise InvalidCliArgs("`--mark` belongs to: aop report failures")
    with open_app(arguments) as app:
        asked: Json = {"fingerprint": arguments.mark, "note": " ".join(arguments.text)}
        answer = call_tool(app, "failures.mark", asked)
    done = "Noted as known." if answer.data["known"] else "The note is removed."
    return terminal.done(answer.data, f"{done} A known failure is still a failure: aop report failures")


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _plan_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for number, wave in enumerate(data["waves"], start=1):
        for each in wave:
            waits = "; ".join(
                f"{wait['on']} ({wait['why'].replace('_', ' ')}{': ' if wait['places'] else ''}"
                f"{', '.join(wait['places'])})"
                for wait in each["waits"]
            )
            yield each["feature_id"], str(number), each["status"], waits or "can go on now"
    for lock in data["locks"]:
        state = "held" if lock["live"] else "ended"
        yield lock["feature_id"], "lock", f"{lock['resource']} #{lock['fence']}", f"{state}, until {lock['until']}"


def _merge_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for place, row in enumerate(data["rows"], start=1):
        why = row["waits"] or f"approved by {row['approved_by'] or 'the policy'}"
        after = f"conflicts with {', '.join(row['meets'])}" if row["meets"] else ""
        more = tuple(Cell(_line(text)) for text in (after, row["merge_failure"]) if text)
        said = Cell(_line(why), "", (*more, command_cell(row["command"])))
        yield str(place), row["feature_id"], row["standing"], said


def _failure_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for row in data["failures"]:
        known = f"known: {row['known']['note']}" if row["known"] else ""
        summary = Cell(_line(row["summary"]), "", tuple(Cell(_line(text)) for text in (known,) if text))
        yield row["fingerprint"], str(row["count"]), row["last"], ", ".join(row["features"]), summary


def _cost_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for part in ("runs", "features", "roles", "models", "days"):
        for row in data[part]:
            yield part.removesuffix("s"), row["name"], _spent(row["spent"])
    for cap in data["caps"]:
        known = cap["spent"]["known"]
        used = "unknown" if known is None else f"{known:g}"
        yield f"cap per {cap['scope']}", cap["name"], f"{used} of {cap['allowed']:g} {cap['figure']}"
    if data["total"]["turns"]:
        yield "all", "", _spent(data["total"])


def _spent(spending: Mapping[str, Any]) -> str:
    return spending_text(msgspec.convert(spending, Spending))


def _time_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for row in data["features"]:
        parts = ", ".join(f"{status} {duration(seconds)}" for status, seconds in row["seconds"].items())
        yield "feature", row["feature_id"], parts
    for row in data["gates"]:
        name = f"{row['mode']} {row['step']}".strip()
        spent = f"{row['runs']} runs, {row['failed']} failed, median {row['median_seconds']:g} s"
        yield "gate", name, f"{spent}, longest {row['longest_seconds']:g} s"
    for row in data["days"]:
        yield "day", row["day"], f"{row['begun']} begun, {row['merged']} merged so far"


def _journal_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for row in data["entries"]:
        yield str(row["seq"]), row["at"], row["kind"], row["feature_id"] or "-", row["actor"], row["facts"]


def _rest_of_journal(said: Said, data: Mapping[str, Any]) -> str:
    older = data["older"]
    if older is None:
        return ""
    options = (("--feature", said.feature), ("--kind", said.kind), ("--before", str(older)))
    words = [*said.text, *(word for name, value in options if value for word in (name, value))]
    return f"Entries before number {older} were not searched. Go on with: aop report journal {shlex.join(words)}"


def _rest_of_failures(_said: Said, data: Mapping[str, Any]) -> str:
    left = data["left_out_runs"]
    return f"{count(left, 'older failed gate run')} left out: aop report journal --kind gates_ran" if left else ""


def _rest_of_search(_said: Said, data: Mapping[str, Any]) -> str:
    left = ", ".join(data["left_out"])
    return f"There are more places of these kinds: {left}. Search with more words to see them." if left else ""


def _journal_arguments(said: Said) -> dict[str, Json]:
    return {"text": " ".join(said.text), "kind": said.kind, "feature_id": said.feature, "before": said.before}


def _board_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for row in data["features"]:
        since = f"since #{row['since_seq']}, {row['since']}  {row['reason']}"
        yield row["feature_id"], row["status"], Cell(_line(since), "", tuple(_past_work(row)))


def _past_work(row: Mapping[str, Any]) -> Iterator[Cell]:
    gates = [f"{mode} {verdict}" for mode, verdict in row["gates"].items()]
    attempts = [f"attempt {row['attempt']}"] if row["attempt"] else []
    role = [f"last turn: {row['role']}", _spent(row["spent"])] if row["role"] else []
    if parts := [*gates, *attempts, *role]:
        yield Cell(_line(", ".join(parts)))


def _board_arguments(said: Said) -> dict[str, Json]:
    if said.at is None:
        raise InvalidCliArgs("A past board needs the number of a journal entry.", hint="aop report board --at N")
    return {"seq": said.at}


def _version_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for name, rows in (("before it began anew: plan", data["earlier"]), ("plan", data["versions"])):
        for row in rows:
            why = row["why"] or ("the first plan" if row["version"] == 1 else "no reason given")
            lost = "" if row["is_kept"] else " (its text is not kept)"
            yield (
                f"{name} {row['version']}",
                row["at"],
                row["by"],
                Cell(_line(f"{why}{lost}"), "", (Cell(_line(row["summary"])),)),
            )
    for row in data["changes"]:
        texts = (f"- {row['old']}" if row["old"] else "", f"+ {row['new']}" if row["new"] else "")
        said = tuple(Cell(_line(text)) for text in texts if text)
        yield f"{data['old']} to {data['new']}", "", "", Cell(_line(row["sentence"]), "", said)


def _version_arguments(said: Said) -> dict[str, Json]:
    if said.feature is None:
        raise InvalidCliArgs("The versions of a plan need its feature.", hint="aop report versions --feature FEATURE")
    old, new = said.between or (None, None)
    return {"feature_id": said.feature, "old": old, "new": new}


def _search_rows(data: Mapping[str, Any]) -> Iterator[Row]:
    for row in data["found"]:
        yield row["kind"], row["feature_id"], row["name"], row["excerpt"]


def _search_arguments(said: Said) -> dict[str, Json]:
    if not said.text:
        raise InvalidCliArgs("There are no words to search for.", hint="aop report search WORDS")
    return {"text": " ".join(said.text)}


REPORTS: Mapping[str, Report] = {
    "plan": Report(
        tool="plan.waves",
        titles=("FEATURE", "WAVE", "STATUS", "WAITS FOR"),
        rows=_plan_rows,
        empty="No feature is on its way. Begin with: aop run",
    ),
    "merges": Report(
        tool="report.merges",
        titles=("#", "FEATURE", "STANDING", "WHY"),
        rows=_merge_rows,
        empty="No feature is ready to merge. See what is on its way with: aop status",
    ),
    "failures": Report(
        tool="report.failures",
        titles=("FINGERPRINT", "COUNT", "LAST", "FEATURES", "FAILURE"),
        rows=_failure_rows,
        empty="No gate has failed, and no feature has stopped.",
        rest=_rest_of_failures,
    ),
    "costs": Report(
        tool="report.costs",
        titles=("BY", "NAME", "SPENT"),
        rows=_cost_rows,
        empty="No agent has taken a turn yet.",
    ),
    "times": Report(
        tool="report.times",
        titles=("OF", "NAME", "TIME"),
        rows=_time_rows,
        empty="No feature has begun yet.",
    ),
    "journal": Report(
        tool="report.journal",
        titles=("#", "AT", "KIND", "FEATURE", "BY", "FACTS"),
        rows=_journal_rows,
        arguments=_journal_arguments,
        empty="No entry of the journal has this.",
        rest=_rest_of_journal,
    ),
    "board": Report(
        tool="report.past",
        titles=("FEATURE", "STATUS", "SINCE"),
        rows=_board_rows,
        arguments=_board_arguments,
        empty="There was no feature then.",
    ),
    "versions": Report(
        tool="plan.versions",
        titles=("PLAN", "ACCEPTED", "BY", "WHY"),
        rows=_version_rows,
        arguments=_version_arguments,
        empty="The feature has no accepted plan yet.",
    ),
    "search": Report(
        tool="report.search",
        titles=("KIND", "FEATURE", "NAME", "TEXT"),
        rows=_search_rows,
        arguments=_search_arguments,
        empty="Nothing has all of these words. The journal is searched by: aop report journal WORDS",
        rest=_rest_of_search,
    ),
}
