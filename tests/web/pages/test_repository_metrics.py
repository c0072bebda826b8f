"""The metrics of one repository, through a real `aop serve`: a token sees what its tools answer."""

from __future__ import annotations

from pathlib import Path

import httpx2

from aop.core.roles import Role
from tests.mcpserver.clients import Served, served, token_for
from tests.world import World, make_repository


def test_a_token_reads_the_figures_of_the_features_that_it_reaches(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    try:
        world.ready("one")
        world.ok("feature.init", feature_id="two")
        with served(world.root) as server:
            every = metrics(server, token_for(world, Role.ORCHESTRATOR))
            one = metrics(server, token_for(world, Role.BUILDER, "one"))
            old = metrics(server, token_for(world, Role.ORCHESTRATOR, age=7200))
            none = httpx2.get(f"{server.origin}/metrics", timeout=300)
    finally:
        world.close()
    assert (every.status_code, one.status_code, old.status_code, none.status_code) == (200, 200, 401, 401)
    assert 'aop_features{repository="repo",status="planning"} 1\n' in every.text
    assert 'aop_features{repository="repo",status="planning"} 0\n' in one.text
    assert 'aop_features{repository="repo",status="ready_to_merge"} 1\n' in one.text
    assert 'aop_leader_live{repository="repo"} 0\n' in every.text


def test_the_figures_have_the_name_that_the_repository_has_in_a_database(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    try:
        world.ok("feature.init", feature_id="one")
        with served(world.root, AOP_REPOSITORY="shop") as server:
            answer = metrics(server, token_for(world, Role.ORCHESTRATOR))
    finally:
        world.close()
    assert 'aop_features{repository="shop",status="planning"} 1\n' in answer.text
    assert "repo" not in answer.text.replace("repositor", "")


def metrics(server: Served, token: str) -> httpx2.Response:
    return httpx2.get(f"{server.origin}/metrics", headers={"authorization": f"Bearer {token}"}, timeout=300)
