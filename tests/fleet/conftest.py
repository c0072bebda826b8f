"""Fixtures of the fleet: a PostgreSQL for each module, a platform for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.fleet.platforms import Platform, platform_in


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    assert programs() is not None, "`make fleet` needs PostgreSQL (`initdb`, `pg_ctl`): apt-get install postgresql"
    with running_cluster() as url:
        yield url


@pytest.fixture
def platform(cluster: str, tmp_path: Path) -> Iterator[Platform]:
    with platform_in(tmp_path, cluster) as made:
        yield made
