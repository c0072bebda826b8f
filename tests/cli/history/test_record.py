"""`aop record`: the record moves into a PostgreSQL and back, and every command follows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD, needs_postgres, running_cluster
from tests.world import World, make_repository, run_aop


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_repository(tmp_path / "repo")
    world = World(made)
    world.plan("alive")
    world.patch("alive")
    world.close()
    return made


def anchor(root: Path, **environ: str) -> str:
    ran = run_aop(root, "evidence", "verify", env=environ)
    assert ran.code == 0, ran.err
    return ran.out


@needs_postgres
def test_the_record_moves_and_every_command_follows_it(root: Path, cluster: str) -> None:
    before = anchor(root)
    moved = run_aop(root, "record", "move", "--to", cluster, "--json")
    assert (moved.code, moved.json["ok"]) == (0, True)
    assert PASSWORD not in moved.out + moved.err
    lost = run_aop(root, "status", "--json")
    assert (lost.code, lost.json["error"]["code"]) == (2, "record_moved")
    assert anchor(root, AOP_DATABASE=cluster) == before
    assert "alive" in run_aop(root, "status", env={"AOP_DATABASE": cluster}).out
    doctor = run_aop(root, "doctor", "--json", env={"AOP_DATABASE": cluster}).json["data"]["checks"]
    assert [each["health"] for each in doctor if each["name"] == "record"] == ["ok"]
    assert run_aop(root, "delete", "alive", "--yes", env={"AOP_DATABASE": cluster}).code == 0
    after = anchor(root, AOP_DATABASE=cluster)
    back = run_aop(root, "record", "move", "--to", "file", env={"AOP_DATABASE": cluster})
    assert back.code == 0, back.err
    assert anchor(root) == after != before
    assert run_aop(root, "record").out == ".aop/record.db\n"
