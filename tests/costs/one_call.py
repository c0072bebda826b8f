"""Counts what one warm call does, and shows what is behind each count.

python -m tests.costs.one_call ROW             the counts of a row beside those of the table; without ROW, of all
python -m tests.costs.one_call --explain ROW   the list behind each count: which processes, files, statements
python -m tests.costs.one_call --write [ROW]   write the present counts into the table; its reasons stay
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.costs.rows import ROWS, WARM_CALLS, Noted
from tests.costs.table import EXACT, LIMITED, TABLE, complaints, expected, rewritten
from tests.costs.trace import BEGIN, END, STRACE, mark, seen_between_marks, traced

ROOT = Path(__file__).parents[2]
MEASURES = (*EXACT, *LIMITED)
LONGEST = 160
"""The most characters of one thing that is explained."""


def count(row: str, folder: Path, database: str = "") -> dict[str, list[str]]:
    """Prepare the scene of a row, make its call in a process of its own, and return what is behind each count."""
    settings = {"AOP_DATABASE": database, "AOP_REPOSITORY": folder.name} if database else {}
    ROWS[row].prepare(folder, settings)
    trace, report = folder / "trace", folder / "report"
    command = [sys.executable, "-m", "tests.costs.one_call", "--perform", row, str(folder)]
    environment = {**_environment(folder), **settings}
    subprocess.run([*(traced(trace) if STRACE else ()), *command], cwd=ROOT, env=environment, check=True)
    told = msgspec.json.decode(report.read_bytes(), type=Noted)
    seen = seen_between_marks(trace) if STRACE else {}
    found = {**seen, "statements": [*told.statements, *seen.get("statements", ())], "modules": told.modules}
    return {
        measure: [text.replace(f"{folder}/", "") for text in found[measure]] for measure in MEASURES if measure in found
    }


def counts_of(seen: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the numbers that the table holds."""
    return {
        measure: sum(int(each.partition(" ")[0]) for each in texts) if measure == "bytes" else len(texts)
        for measure, texts in seen.items()
    }


def _perform(row: str, folder: Path) -> None:
    """Make the call often enough for it to be warm, and then once between the marks."""
    noted = Noted(statements=[], modules=[])
    with ROWS[row].opened(folder, noted) as act:
        for number in range(WARM_CALLS):
            act(number)
        noted.statements.clear()
        noted.modules.clear()
        present = {*sys.modules}
        mark(BEGIN)
        act(WARM_CALLS)
        mark(END)
        noted.modules += sorted({*sys.modules} - present)
        written = msgspec.json.encode(noted)
    (folder / "report").write_bytes(written)


def _environment(folder: Path) -> Mapping[str, str]:
    """Return an environment that is the same on every machine: no settings of a person, no measuring of coverage."""
    left_out = ("AOP_", "COV", "GIT_", "PYTEST", "PYTHON", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    (folder / "home").mkdir()
    return {
        **kept,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder / "home"),
        "PYTHONHASHSEED": "0",
        "USER": "ada",
    }


def _explain(row: str, seen: Mapping[str, Sequence[str]]) -> None:
    for measure, number in counts_of(seen).items():
        print(f"\n{row}: {measure} {number}")
        for text, times in Counter(text[:LONGEST] for text in seen[measure]).items():
            print(f"{times:6} x {text}")


def main() -> int:
    """Count, and print or write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.costs.one_call", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("row", nargs="?", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--explain", action="store_true", help="print what is behind each count")
    parser.add_argument("--write", action="store_true", help="write the counts into the table")
    words = parser.parse_args()
    rows = [words.row] if words.row else [*ROWS]
    with _cluster_for(rows) as database:
        for row in rows:
            if ROWS[row].on_postgres and not database:
                print(f"{row}: PostgreSQL is not installed on this machine")
                continue
            with tempfile.TemporaryDirectory(prefix="aop-costs-") as folder:
                seen = count(row, Path(folder), database if ROWS[row].on_postgres else "")
            _show(row, seen, explain=words.explain, write=words.write)
    return 0


def _cluster_for(rows: Sequence[str]) -> AbstractContextManager[str]:
    is_needed = any(ROWS[row].on_postgres for row in rows) and programs()
    return running_cluster() if is_needed else nullcontext("")


def _show(row: str, seen: Mapping[str, Sequence[str]], *, explain: bool, write: bool) -> None:
    counts = counts_of(seen)
    if explain:
        _explain(row, seen)
    else:
        print(f"{row}:", ", ".join(f"{measure} {number}" for measure, number in counts.items()))
    if write:
        TABLE.write_text(rewritten(TABLE.read_text(), row, counts))
    else:
        for complaint in complaints(row, counts, expected().get(row, {})):
            print(complaint)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--perform"]:
        _perform(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
