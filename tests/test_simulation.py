"""The simulation of a fleet keeps its promises in virtual time, and notices when a rule is taken away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bench.virtual.agenda import Agenda
from bench.virtual.database import Database, Gate
from bench.virtual.flaws import Flaw
from bench.virtual.fleet import Background, Fleet, Outcome, Size
from bench.virtual.hosts import Host
from bench.virtual.tallies import Tallies
from bench.virtual.workers import Worker

ROOT = Path(__file__).parents[1]
SMALL = ("--workers", "20", "--repositories", "20", "--features", "500")


def simulated(*flaws: Flaw, seed: int = 1, features: int = 500) -> tuple[Outcome, Background]:
    return Fleet(Size(workers=20, repositories=20, features=features, seed=seed, flaws=frozenset(flaws))).run()


def test_a_small_fleet_with_faults_loses_nothing_and_records_everything_once() -> None:
    words = [sys.executable, "-m", "bench.simulate", *SMALL, "--seed", "1", "--json"]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    outcome = json.loads(ran.stdout)
    assert list(outcome) == ["lost", "recorded_twice", "takeover_max_seconds", "looks_per_second", "last_to_first"]
    assert (outcome["lost"], outcome["recorded_twice"]) == (0, 0)
    assert 2.0 < outcome["takeover_max_seconds"] <= 5.0
    assert 0 < outcome["looks_per_second"] <= 400


def test_the_same_seed_has_the_same_outcome() -> None:
    _, background = once = simulated(seed=2, features=150)
    assert simulated(seed=2, features=150) == once
    assert background.faults > 20


def test_no_repository_waits_long_beside_a_greedy_one() -> None:
    _, background = simulated(seed=2)
    assert background.faults > 50
    assert background.takeovers > 50
    assert background.wrongly_dead == 0
    assert background.longest_to_median_wait <= 2.0


@pytest.mark.parametrize("flaw", [Flaw.NO_OWNER, Flaw.NO_EPOCH, Flaw.NO_FENCE])
def test_what_is_recorded_twice_without_a_fence_is_counted(flaw: Flaw) -> None:
    outcome, _ = simulated(flaw)
    assert outcome.recorded_twice > 0


def test_features_are_lost_where_nobody_judges() -> None:
    outcome, _ = simulated(Flaw.NO_JUDGE)
    assert outcome.lost > 0


def test_a_judge_that_was_cut_off_itself_declares_others_dead_after_a_restart_of_the_database() -> None:
    _, background = simulated(Flaw.HASTY_JUDGE)
    assert background.wrongly_dead > 0


@pytest.mark.parametrize("flaws", [frozenset[Flaw](), frozenset({Flaw.FORGOTTEN_CLAIMS})])
def test_a_claim_whose_answer_was_lost_with_the_link_is_not_forgotten(flaws: frozenset[Flaw]) -> None:
    agenda = Agenda()
    database = Database(agenda, flaws)
    host = Host(agenda, database, Random(1))
    worker = Worker("one", host, places=1, tallies=Tallies(), lead=lambda _number, _epoch: None, ended=host.kill)
    worker.start()
    gate = Gate(0, 0, 0, seconds=1.0, reaches_network=False)
    agenda.after(5.0, lambda: database.enqueue(gate))
    agenda.run(10.0, lambda: gate.owner != 0)
    assert (gate.executor, gate in worker.running) == ("one", False)
    host.cut()
    agenda.after(1.0, host.join)
    agenda.run(60.0, lambda: gate.answers > 0)
    assert gate.answers == (0 if flaws else 1)
