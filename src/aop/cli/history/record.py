"""`aop record`: say where the record is, and move it into a database or back."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aop.adapters.git.repository import open_repository
from aop.adapters.machine.agent_signs import sign_of_agent
from aop.adapters.machine.supervisor_lease import LeaseHolder
from aop.adapters.storage.record.choice import DATABASE, RECORD, is_moved, place_at, place_of
from aop.adapters.storage.record.postgres.place import Place
from aop.cli.shell.terminal import Terminal
from aop.core.errors import DatabaseUnavailable, InvalidCliArgs, PersonRequired, RecordUnavailable, SupervisorRunning
from aop.core.text.counts import count
from aop.wiring.server_lease import server_of
from aop.wiring.supervisor_lease import file_leases

FILE = "file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("show", "move", "adopt"), nargs="?", default="show", help="default: show")
    parser.add_argument("--to", metavar="URL", help=f"move: postgresql://USER@HOST:PORT/NAME, or `{FILE}` for {RECORD}")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show, move or adopt."""
    environ = os.environ
    root = open_repository(Path(arguments.repo), environ).root
    if arguments.action == "show":
        return _show(root, environ, terminal)
    if sign := sign_of_agent(environ):
        raise PersonRequired(f"`aop record {arguments.action}` is for a person, and {sign}.", sign=sign)
    if arguments.action == "adopt":
        return _adopt(root, environ, terminal)
    target = arguments.to or environ.get(DATABASE)
    _refuse_at_work(root, place_of(root, environ) if target == FILE else None)
    if not target:
        raise InvalidCliArgs("`aop record move` needs --to.", hint=f"--to postgresql://..., or --to {FILE}")
    return _to_file(root, environ, terminal) if target == FILE else _to_database(root, target, terminal)


def _show(root: Path, environ: Mapping[str, str], terminal: Terminal) -> int:
    place, path = place_of(root, environ), root / RECORD
    moved = path.exists() and is_moved(path)
    if place is not None:
        data = {"where": place.shown, "repository": place.name, "home": place.home}
        return terminal.result(data, f"{place.shown}, as `{place.name}`")
    if moved:
        return terminal.result({"where": "moved"}, f"moved into a database; set {DATABASE}")
    return terminal.result({"where": RECORD}, f"{RECORD}{'' if path.exists() else ', not made yet'}")


def _to_database(root: Path, url: str, terminal: Terminal) -> int:
    from aop.adapters.storage.record.moves import move_to_database

    place, path = place_at(url, root, os.environ), root / RECORD
    if not path.exists():
        raise RecordUnavailable("There is no record to move.", hint=f"Set {DATABASE}: the record is made there.")
    moved = move_to_database(path, place)
    what = f"Moved {_amount(moved.entries, moved.documents)} to {place.shown}, as `{place.name}`."
    terminal.say(f"{what} Both chains were proven. From now on set {DATABASE}; {RECORD} is kept, and read-only.")
    return terminal.result({"to": place.shown, **msgspec.to_builtins(moved)}, "")


def _to_file(root: Path, environ: Mapping[str, str], terminal: Terminal) -> int:
    from aop.adapters.storage.record.moves import move_to_file

    place, path = place_of(root, environ), root / RECORD
    if place is None:
        raise InvalidCliArgs(f"{DATABASE} is not set.", hint="Set it to the database that has the record.")
    if path.exists() and not is_moved(path):
        raise InvalidCliArgs(f"{RECORD} is in use; nothing was moved.", hint="`aop record` says where the record is.")
    moved = move_to_file(place, path)
    what = f"Moved {_amount(moved.entries, moved.documents)} back to {RECORD}."
    terminal.say(
        f"{what} Both chains were proven. From now on unset {DATABASE}; the database keeps its copy, read-only."
    )
    return terminal.result({"to": RECORD, **msgspec.to_builtins(moved)}, "")


def _adopt(root: Path, environ: Mapping[str, str], terminal: Terminal) -> int:
    place = place_of(root, environ)
    if place is None:
        raise DatabaseUnavailable(f"in {DATABASE}", "it is not set")
    from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord

    record = PostgresRecord(place)
    try:
        before = record.adopt()
    finally:
        record.close()
    return terminal.done(
        {"repository": place.name, "before": before, "home": place.home},
        f"The record of `{place.name}` belongs to `{place.home}` now; before, to `{before}`.",
    )


def _refuse_at_work(root: Path, place: Place | None) -> None:
    """Refuse to move a record under a process that works with it. Raises: SupervisorRunning."""
    leading = file_leases(root).holder() if place is None else _leader_in(place)
    at_work = ((leading, "supervises", "aop stop"), (server_of(root), "serves", "aop web --stop"))
    for holder, what, end in at_work:
        if holder is not None:
            raise SupervisorRunning(
                f"{holder.name.capitalize()} {what} this repository; nothing was moved.", hint=f"End it first: {end}"
            )


def _leader_in(place: Place) -> LeaseHolder | None:
    from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord

    record = PostgresRecord(place)
    try:
        return record.leases().holder()
    finally:
        record.close()


def _amount(entries: int, documents: int) -> str:
    return f"{count(entries, 'journal entry', 'journal entries')} and {count(documents, 'document')}"
