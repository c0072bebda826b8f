"""`python -m bench`: run the measurements, print the table, and keep the results for a comparison."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bench import results
from bench.agents import agents
from bench.build_errors import build_errors
from bench.build_turns import build_turns
from bench.builds import write_file
from bench.checkouts import sync
from bench.collisions import scan
from bench.databases import databases
from bench.effort import Case, full, quick
from bench.features import apply_patch, feature_init, rebase
from bench.forge import forge
from bench.gates import flood, gates_run
from bench.idle_worker import idle_worker
from bench.mcp import mcp
from bench.measurements import Measurement
from bench.page_windows import page_windows
from bench.pages import pages
from bench.planning import planning
from bench.records import dashboard, history, plan_submit
from bench.runs import run
from bench.scans import deep_scan
from bench.startup import init, startup
from bench.throughput import throughput
from bench.tickets import tickets
from bench.watch import watch

CASES: Mapping[str, Case] = {
    "startup": startup,
    "init": init,
    "report.dashboard": dashboard,
    "plan.submit": plan_submit,
    "collisions.scan": scan,
    "feature.init": feature_init,
    "repo.apply_patch": apply_patch,
    "repo.rebase_onto_main": rebase,
    "repo.sync": sync,
    "gates.run": gates_run,
    "history": history,
    "record.postgres": databases,
    "planning": planning,
    "worker": idle_worker,
    "mcp": mcp,
    "forge": forge,
    "forge.errors": build_errors,
    "forge.turns": build_turns,
    "forge.scan": deep_scan,
    "write_file": write_file,
    "throughput": throughput,
    "run": run,
    "agents": agents,
    "flood": flood,
    "tickets": tickets,
    "watch": watch,
    "pages": pages,
    "pages.windows": page_windows,
}


def main() -> int:
    """Measure, or compare two earlier runs."""
    arguments = _parser().parse_args()
    if arguments.compare:
        old, new = map(results.read, arguments.compare)
        print(results.comparison(old, new), end="")
        return 0
    before = results.load_here()
    found = results.Results(
        commit=results.commit_here(),
        machine=results.machine_here(),
        is_quick=arguments.quick,
        is_partial=arguments.only is not None,
        measurements=tuple(_measured(arguments.only or list(CASES), is_quick=arguments.quick)),
        load=(before, results.load_here()),
    )
    path = results.kept(found)
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        load = "load {} before, {} after".format(*found.load)
        print(f"{found.commit}, {found.machine}, {load}\n\n{results.table(found.measurements)}")
        print(path.relative_to(Path.cwd()))
    return 0


def _measured(names: list[str], *, is_quick: bool) -> Iterator[Measurement]:
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="aop-bench-") as folder:
            effort = (quick if is_quick else full)(Path(folder) / "scene")
            yield from CASES[name](effort)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller repositories and fewer turns: rough figures, soon"
    )
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=f"one of: {', '.join(CASES)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A.json", "B.json"), help="measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
