"""Worlds that many tests of one file share: a refused call leaves them as they are, and that is checked each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.tools.worlds import configured, copied, ready_repository
from tests.world import World

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeWorld]:
    """Makes managed repositories, each with a configuration of its own."""
    yield from _making(tmp_path_factory)


@pytest.fixture(scope="module")
def make_shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeWorld]:
    """Makes managed repositories that the tests of one file share."""
    yield from _making(tmp_path_factory)


def _making(folders: pytest.TempPathFactory) -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(**how: Any) -> World:
        made.append(configured(folders.mktemp("world") / "repo", **how))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_repository(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def readied(template: Path, tmp_path: Path) -> Iterator[World]:
    """A managed repository with a feature `one` that may be merged."""
    made = World(copied(template, tmp_path / "repo"))
    yield made
    made.close()
