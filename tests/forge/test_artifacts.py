"""Artifacts of a build: kept for a day, then gone for readers at once, and for good with `aop gc`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.core.errors import InvalidArguments
from aop.forge.projects.artifacts import ArtifactPlace, artifact_of, store_artifact
from aop.forge.projects.documents import Artifact
from tests.clocks import HandClock, clocked
from tests.world import Ran, World, make_repository, run_aop

PLACE = ArtifactPlace(project_id="shop", artifact_type="contract", name="manifesto")
KEY = "project:shop:contract:manifesto"
SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
DAY = 24 * 3600


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()


@pytest.fixture
def clock(world: World) -> HandClock:
    return clocked(world)


def store(world: World, content: str = "Text.", place: ArtifactPlace = PLACE) -> Artifact:
    kernel = world.app.gateway.kernel
    with kernel.record.write() as tx:
        return store_artifact(kernel, tx, place, {"content": content})


def found(world: World) -> Artifact | None:
    kernel = world.app.gateway.kernel
    with kernel.record.read() as view:
        return artifact_of(kernel, view, PLACE)


@pytest.mark.req("FORGE-089")
def test_an_artifact_is_there_for_a_day_and_then_gone(world: World, clock: HandClock) -> None:
    made = store(world)
    assert (made.created_at, made.expires_at) == ("2026-01-02T12:00:00.000Z", "2026-01-03T12:00:00.000Z")
    with world.app.record.read() as view:
        assert view.get(Artifact, KEY) == made
    clock.go_on(DAY - 1)
    assert found(world) == made
    clock.go_on(1)
    assert found(world) is None


def test_an_artifact_that_is_stored_again_lives_a_day_more(world: World, clock: HandClock) -> None:
    store(world)
    clock.go_on(DAY - 1)
    second = store(world, "New text.")
    clock.go_on(2)
    assert found(world) == second


def test_a_secret_is_not_kept_in_an_artifact(world: World) -> None:
    assert store(world, f"key {SECRET}").content == {"content": "key [redacted:github-token]"}


@pytest.mark.parametrize(
    "name", ["", "x" * 61, "a\nb", "a\x00", "a:b"], ids=["empty", "long", "line end", "NUL", "two parts"]
)
def test_a_name_that_cannot_be_a_key_is_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidArguments, match="cannot name an artifact"):
        store(world, place=ArtifactPlace(project_id="shop", artifact_type="contract", name=name))


def test_gc_finds_and_removes_what_expired_and_nothing_else(world: World, clock: HandClock) -> None:
    store(world)
    # The command runs by the clock of this machine, and so ten months later.
    fresh = ArtifactPlace(project_id="shop", artifact_type="contract", name="fresh")
    clock.go_on(3650 * DAY)
    store(world, place=fresh)
    listed = run_aop(world.root, "gc")
    assert (listed.code, listed.out) == (3, f"artifact  {KEY}\n")
    assert run_aop(world.root, "gc", "--apply") == Ran(0, f"artifact  {KEY}  removed\n", "")
    with world.app.record.read() as view:
        assert [each.name for each in view.all(Artifact)] == ["fresh"]
        (event,) = (entry.event for entry in view.journal(kinds=("leftover_removed",)))
    assert event.payload == {"what": "artifact", "name": KEY, "ref": None}
    assert run_aop(world.root, "gc") == Ran(0, "", "Nothing to clean up.\n")
