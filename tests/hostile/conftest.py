"""The arena of the hostile suites: prepared once, and as new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.arena import Arena, Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Where the repository under attack stands."""
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture
def arena(stage: Stage) -> Arena:
    """The repository under attack."""
    return stage.arena()
