"""`python -m bench`: run the measurements, print the table, and keep the results for a comparison."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

import msgspec

from bench import results
from bench.cases import CASES, run_case, run_case_here


def main() -> int:
    """Measure, or show earlier runs. Return 1 if a case failed; a missed budget is only reported."""
    arguments = _parser().parse_args()
    if arguments.case:
        return run_case_here(arguments.case, arguments.scene, is_quick=arguments.quick)
    if arguments.compare:
        old, new = map(results.read, arguments.compare)
        print(results.comparison(old, new), end="")
        return 0
    if arguments.write_docs:
        document = results.with_figures(results.DOCUMENT.read_text(), results.read(arguments.write_docs))
        results.DOCUMENT.write_text(document)
        return 0
    # With an exception, so that the case that runs is stopped too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    found = _measured(arguments.only or _part(list(CASES), arguments.part), arguments)
    if arguments.json:
        print(msgspec.json.encode(found).decode())
        _say(results.summary(found))
    else:
        print(f"{results.heading(found)}\n")
        print(results.table(found.measurements, is_judged=not found.is_quick))
        print(results.summary(found))
        print(results.path_of(found, arguments.results))
    return 1 if found.failed else 0


def _measured(names: list[str], arguments: argparse.Namespace) -> results.Results:
    """Run cases, one after the other, and write all results again after each new one."""
    load = results.load_here()
    found = results.Results(
        commit=results.commit_here(), machine=results.machine_here(), is_quick=arguments.quick, load=(load, load)
    )
    for number, name in enumerate(names, start=1):
        began = time.monotonic()
        _say(f"case {number} of {len(names)}: {name} ...")
        for outcome in run_case(name, is_quick=arguments.quick):
            found = msgspec.structs.replace(results.added(found, name, outcome), load=(load, results.load_here()))
            results.write(found, arguments.results)
            _say(f"  {results.line_of(outcome)}")
        _say(f"case {number} of {len(names)}: {name} took {time.monotonic() - began:.1f} s")
    if arguments.only is None and arguments.part is None and not found.failed:
        found = results.write_whole(found, arguments.results)
    return found


def _part(names: list[str], part: str | None) -> list[str]:
    number, parts = map(int, (part or "1/1").split("/"))
    return names[len(names) * (number - 1) // parts : len(names) * number // parts]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the least of everything: shows that each case runs")
    parser.add_argument(
        "--only",
        action="append",
        type=_case,
        metavar="NAME",
        help=f"one of: {', '.join(CASES)}; or MODULE:FUNCTION. May be repeated",
    )
    parser.add_argument("--part", metavar="K/N", help="only the k-th of n parts of the cases")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER", help="where they are kept")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A.json", "B.json"), help="measure nothing")
    parser.add_argument(
        "--write-docs", type=Path, metavar="A.json", help="measure nothing; put a whole run into docs/performance.md"
    )
    # How the process of a case is started.
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--scene", type=Path, help=argparse.SUPPRESS)
    return parser


def _case(name: str) -> str:
    if name not in CASES and ":" not in name:
        raise argparse.ArgumentTypeError(f"there is no case {name}")
    return name


if __name__ == "__main__":
    sys.exit(main())
