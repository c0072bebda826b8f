"""Many processes that change the projects of one repository at once, and calls that are sent twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.forge.projects import stored
from tests.racing import race
from tests.world import World, make_repository

CALL = """
import os
from aop.wiring.build import Settings, build

with build(Path(sys.argv[1]), Settings.from_env(os.environ)) as app:
    ready()
    answer = app.gateway.call(app.person, sys.argv[2], json.loads(sys.argv[3]))
    print(json.dumps(answer.as_json()))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repo")
    world = World(root)
    world.ok("forge.project_new", name="Shop")
    stored(world, "shop")
    world.close()
    return root


def test_of_many_processes_that_begin_one_project_one_does(repository: Path) -> None:
    answers = race(CALL, [(repository, "forge.project_new", '{"name": "Blog"}')] * 4)
    assert sorted(answer["ok"] for answer in answers) == [False, False, False, True]
    assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {"project_exists"}


def test_builds_that_are_pinned_at_once_are_all_different(repository: Path) -> None:
    answers = race(CALL, [(repository, "forge.pin", '{"project_id": "shop"}')] * 4)
    assert sorted(answer["data"]["build_id"] for answer in answers) == ["shop-b1", "shop-b2", "shop-b3", "shop-b4"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("forge.project_new", {"name": "Blog"}),
        ("forge.pin", {"project_id": "shop"}),
        ("forge.key_new", {"label": "server"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_that_is_sent_twice_takes_effect_once(repository: Path, tool: str, arguments: dict[str, Any]) -> None:
    world = World(repository)
    first = world.call(tool, operation="op-twice", **arguments)
    before = world.fingerprint()
    assert (first.ok, world.call(tool, operation="op-twice", **arguments)) == (True, first)
    assert world.fingerprint() == before
    world.close()
