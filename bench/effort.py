"""How much is measured: all of it, or the least of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from bench.measurements import Measurement, Skipped


class Effort(Struct, frozen=True, kw_only=True):
    """Sizes and numbers of turns. The defaults are those that the budgets are meant for."""

    folder: Path
    """Where the repositories of one case are made; it does not exist yet."""
    longest_seconds: float = 1800.0
    """How long a case may take before it is stopped."""

    turns: int = 25
    slow_turns: int = 7
    """For what may take a second."""
    seconds: float = 5.0
    """How long many clients call at once."""
    idle_seconds: float = 20.0
    """How long a process that has nothing to do is watched."""

    files: tuple[int, ...] = (20, 20_000)
    """How many a repository has."""
    features_present: tuple[int, ...] = (5, 50, 200)
    features_listed: int = 200
    """How many a board, a dashboard or `aop status` shows."""
    features_most: int = 1000
    """How many a large record has."""
    features_changed: int = 20
    """How many have patches that may collide."""
    features_run: tuple[int, ...] = (5, 20, 50)
    """How many one `aop run` takes from their specs to `ready to merge`."""
    operations: int = 1000
    """How many calls a feature has had before it is called old."""

    flood_bytes: int = 2 * 1024**3
    clients: tuple[int, ...] = (1, 4, 8, 16)
    client_processes: int = 4
    agent_sessions: int = 5
    agent_turn_seconds: float = 1.0
    """How long an agent of `aop run` sleeps in each turn."""

    projects: tuple[int, ...] = (1, 200)
    """How many the forge has, each with so many versions of its contracts."""
    versions: int = 50
    build_turns: int = 400
    build_errors: int = 10_000

    webhooks: int = 100
    webhook_seconds: float = 10.0
    """The time over which they are delivered."""
    tabs: int = 20
    diff_lines: int = 5000

    fleet_workers: int = 100
    """The size of the simulated fleet."""
    fleet_repositories: int = 1000
    fleet_features: int = 10_000


def full(folder: Path) -> Effort:
    """Return the effort that the budgets are meant for."""
    return Effort(folder=folder)


def quick(folder: Path) -> Effort:
    """Return the smallest effort that runs all code of each case; its figures say nothing."""
    return Effort(
        folder=folder,
        longest_seconds=300.0,
        turns=1,
        slow_turns=1,
        seconds=0.1,
        idle_seconds=0.5,
        files=(20,),
        features_present=(2,),
        features_listed=5,
        features_most=20,
        features_changed=2,
        features_run=(1,),
        operations=3,
        flood_bytes=1024**2,
        clients=(1, 2),
        client_processes=2,
        agent_sessions=1,
        agent_turn_seconds=0.0,
        projects=(1,),
        versions=2,
        build_turns=6,
        build_errors=10,
        webhooks=3,
        webhook_seconds=0.3,
        tabs=2,
        diff_lines=100,
        fleet_workers=5,
        fleet_repositories=5,
        fleet_features=50,
    )


Case: TypeAlias = Callable[[Effort], Iterator[Measurement | Skipped]]
