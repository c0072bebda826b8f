"""`python -m bench.simulate`: a fleet of many workers and repositories in virtual time, with faults by a seed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.effort import Effort
from bench.measurements import Budget, Measurement
from bench.virtual.flaws import Flaw
from bench.virtual.fleet import Fleet, Size


def main() -> int:
    """Simulate, and print what came of it."""
    arguments = _parser().parse_args()
    size = Size(
        workers=arguments.workers,
        repositories=arguments.repositories,
        features=arguments.features,
        seed=arguments.seed,
        flaws=frozenset(arguments.flaw or ()),
    )
    began = time.perf_counter()
    outcome, background = Fleet(size).run()
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(outcome)))
    else:
        took = {"real_seconds": round(time.perf_counter() - began, 1)}
        for name, value in (msgspec.to_builtins(outcome) | msgspec.to_builtins(background) | took).items():
            print(f"{name:24} {value}")
    return 0


def simulation(effort: Effort) -> Iterator[Measurement]:
    """Simulate a fleet as a case of the bench. Its figures are of virtual time, and the same on every machine."""
    size = Size(
        workers=effort.fleet_workers,
        repositories=effort.fleet_repositories,
        features=effort.fleet_features,
        seed=1,
        flaws=frozenset(),
    )
    outcome, _ = Fleet(size).run()
    if outcome.lost or outcome.recorded_twice:
        raise RuntimeError(f"{outcome.lost} features were lost, and {outcome.recorded_twice} verdicts recorded twice.")
    name = f"simulated fleet of {size.workers} workers"
    longest = outcome.takeover_max_seconds * 1000
    yield Measurement(name=f"{name}, longest takeover", ours=longest, budget=Budget("at most", 5000.0))
    looks = float(outcome.looks_per_second)
    yield Measurement(name=f"{name}, looks at the database", unit="/s", ours=looks, budget=Budget("at most", 400.0))
    yield Measurement(
        name=f"{name}, the last tenth of {size.features} features next to the first",
        unit="x",
        ours=outcome.last_to_first,
        budget=Budget("at most", 1.1),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.simulate", description=__doc__)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--repositories", type=int, default=1000)
    parser.add_argument("--features", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flaw", type=Flaw, choices=list(Flaw), action="append", help="take a rule away")
    parser.add_argument("--json", action="store_true", help="print the five figures as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
