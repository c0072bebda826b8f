"""Fixtures of the tests of people: a build that has begun, under a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clocks import HandClock, clocked
from tests.forge.builds.cycles import begun
from tests.world import World, make_repository


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()


@pytest.fixture
def clock(world: World) -> HandClock:
    return clocked(world)


@pytest.fixture
def build(world: World, clock: HandClock) -> str:
    return begun(world)
