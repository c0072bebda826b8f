"""Runs `aop` as its entry point does, and then reports its SQL statements and its modules.

It imports nothing that a bare Python has not imported, so that the modules are those of `aop`.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any


def watch_statements(into: list[str]) -> None:
    """Note each statement of every SQLite connection that this process opens from now on."""
    watched: list[type[sqlite3.Connection]] = []

    def on_event(event: str, words: tuple[Any, ...]) -> None:
        if not watched and hasattr(sys.modules.get("sqlite3"), "connect"):
            watched.append(_watch_connections(into))
        if event == "sqlite3.connect/handle" and type(words[0]) not in watched:
            raise AssertionError("A connection was opened that nobody watches.")

    sys.addaudithook(on_event)


def _watch_connections(into: list[str]) -> type[sqlite3.Connection]:
    # When the event of a new connection comes, it takes no callback yet: so connections are of a class of ours.
    import sqlite3

    class Watched(sqlite3.Connection):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            self.set_trace_callback(into.append)

    connect = sqlite3.connect

    def connect_watched(*words: Any, **options: Any) -> sqlite3.Connection:
        return connect(*words, **options, factory=Watched)

    sqlite3.connect = sqlite3.dbapi2.connect = connect_watched  # type: ignore[assignment]
    return Watched


def _report(file: int, statements: list[str], present: set[str]) -> None:
    lines = [f"module {name}" for name in sorted({*sys.modules} - present)]
    lines += [f"statement {' '.join(each.split())}" for each in statements]
    os.write(file, "\n".join(lines).encode())


def _main() -> int:
    # The script's own folder, which is no part of an installed `aop`.
    del sys.path[0]
    report = int(sys.argv.pop(1))
    statements: list[str] = []
    atexit.register(_report, report, statements, {*sys.modules})
    watch_statements(statements)
    from aop.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
