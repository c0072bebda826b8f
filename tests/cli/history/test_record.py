"""`aop record`: the record moves into a PostgreSQL and back, and every command follows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aop.core.ids import FeatureId
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Claim
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


def copies_of(world: World, name: str, count: int) -> None:
    """Have many features with the documents, claims and journal entries of one, written as the record writes them."""
    record = world.app.record
    with record.read() as view:
        state = view.get(FeatureState, FeatureId(name))
        events = [entry.event for entry in view.journal() if entry.event.feature_id == name]
    assert state is not None
    for number in range(count):
        copy = FeatureId(f"{name}-{number}")
        with record.write(durable=False) as tx:
            tx.put(msgspec.structs.replace(state, feature_id=copy, version=1), copy)
            tx.set_claims(copy, [Claim(feature_id=copy, kind="file", key=f"src/{copy}", text=f"src/{copy}")])
            for event in events:
                tx.append(msgspec.structs.replace(event, feature_id=copy))


@needs_postgres
@pytest.mark.slow
def test_a_record_of_1000_features_has_the_same_anchor_there_and_back(root: Path, cluster: str) -> None:
    world = World(root)
    copies_of(world, "alive", 999)
    world.close()
    database = {"AOP_DATABASE": cluster, "AOP_REPOSITORY": "thousand"}
    before = anchor(root)
    there = run_aop(root, "record", "move", "--to", cluster, "--json", env={"AOP_REPOSITORY": "thousand"})
    assert (there.code, there.json["data"]["documents"] >= 1000) == (0, True), there.err
    assert anchor(root, **database) == before
    assert len(run_aop(root, "status", "--json", env=database).json["data"]["features"]) == 1000
    back = run_aop(root, "record", "move", "--to", "file", env=database)
    assert back.code == 0, back.err
    assert anchor(root) == before
