"""`python -m bench.fleet`: gates on real workers, with PostgreSQL and hosts that are network namespaces."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench.leading import PLACES, Leader, start_workers
from bench.takeovers import KINDS, LostWorkers, leader_takeovers, summary
from tests.adapters.storage.postgres_clusters import running_cluster_at
from tests.fleet.hosts import Hosts, hosts
from tests.fleet.platforms import platform_in
from tests.world import FILES, make_repository

ROUNDS = 20
MOST_WORKERS = 3
GATE = {**FILES, "check.sh": "sleep 1\n"}
LONG_GATE = {**FILES, "check.sh": "sleep 4\n"}
"""Long enough that its worker is lost while it runs."""


def main() -> int:
    """Measure, and print what was found as JSON."""
    arguments = _parser().parse_args()
    # The database and the hosts are removed then, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="aop-bench-") as name, hosts(MOST_WORKERS) as machines:
        folder = Path(name)
        with running_cluster_at(machines.address) as cluster:
            twice = lost = 0
            for measure in (_speed, _takeovers):
                figures, calls, recorded = measure(folder / measure.__name__, cluster.url, machines, arguments.n)
                found |= figures
                twice, lost = twice + max(0, recorded - calls), lost + max(0, calls - recorded)
            _say("leader")
            found["takeover_seconds"]["leader"] = summary(leader_takeovers(cluster.url, arguments.n))
    found |= {"recorded_twice": twice, "lost": lost}
    if not arguments.json:
        _say(f"load {os.getloadavg()[0]:.1f}")
    print(json.dumps(msgspec.to_builtins(found), indent=None if arguments.json else 2))
    return 0


def _speed(folder: Path, url: str, machines: Hosts, rounds: int) -> tuple[dict[str, Any], int, int]:
    """Measure one gate at a time here and there, and many at once on more and more workers."""
    _say("gate, here")
    with closing(Leader(make_repository(folder / "alone", GATE), {})) as alone:
        local = median(alone.gate_seconds(rounds)) * 1000
    # The folder is the name of the repository.
    (folder / "fleet").mkdir()
    with platform_in(folder / "fleet", url, GATE) as platform:
        features = 2 * PLACES * MOST_WORKERS
        with closing(Leader(platform.root, platform.env, features)) as leader:
            throughput: list[dict[str, float]] = []
            remote = 0.0
            for number in range(1, MOST_WORKERS + 1):
                _say(f"gates on {number} workers")
                start_workers(platform, machines, (number,))
                if number == 1:
                    remote = median(leader.gate_seconds(rounds)) * 1000
                # Each worker has a clone by then.
                leader.gates_per_second(1)
                reached = leader.gates_per_second(max(1, rounds // 4))
                one = throughput[0]["gates_per_second"] if throughput else reached
                share = round(reached / one / number, 3)
                throughput.append({"workers": number, "gates_per_second": round(reached, 3), "share": share})
            gate = {"local_ms": round(local, 1), "remote_ms": round(remote, 1), "ratio": round(remote / local, 3)}
            return {"gate": gate, "throughput": throughput}, leader.calls, leader.recorded()


def _takeovers(folder: Path, url: str, machines: Hosts, rounds: int) -> tuple[dict[str, Any], int, int]:
    """Lose workers, one way after the other."""
    folder.mkdir()
    with platform_in(folder, url, LONG_GATE) as platform, closing(Leader(platform.root, platform.env)) as leader:
        found = {}
        with closing(LostWorkers(platform, machines, leader)) as workers:
            for kind in KINDS:
                _say(kind)
                found[kind] = summary([workers.lose(kind) for _ in range(rounds)])
        return {"takeover_seconds": found}, leader.calls, leader.recorded()


def _say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--n", type=int, default=ROUNDS, help=f"rounds of each measurement; {ROUNDS} unless told")
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
