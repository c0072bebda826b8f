"""A copy of the module's prepared repository for each test, which may leave it as it likes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.tools.worlds import copied
from tests.world import World


@pytest.fixture
def world(base: Path, tmp_path: Path) -> Iterator[World]:
    made = World(copied(base, tmp_path / "repo"))
    yield made
    made.close()
