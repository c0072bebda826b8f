"""What every test starts from: no git settings of this machine, and the same hypothesis examples each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.world import World, make_repository


def pytest_configure(config: pytest.Config) -> None:
    # Under a git hook GIT_DIR names the outer repository, and a test's `git commit` would land there.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("repeatable")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A managed repository with one commit."""
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()
