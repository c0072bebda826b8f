"""Host coder: an MCP client over HTTP is the coder of a team, at the door that its build opens."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from aop.mcpserver.in_background import served_in_background
from aop.wiring.build import make_ready_for_threads
from tests.forge.builds.notes_app import PHASE_0, PHASE_1
from tests.forge.builds.run.builders import BUILD, PROJECT, notes_repository
from tests.forge.builds.run.hosts import EVIDENCE_0, EVIDENCE_1, TASKS_0, TASKS_1, Host
from tests.forge.builds.run.teams import AUDITED, AUDITOR, CODER, SCOUT, SCOUTED, Team
from tests.mcpserver.clients import over_http, token_for
from tests.world import World, git

LONGEST_SECONDS = 300.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo")
    yield made
    made.close()


@pytest.mark.req("FORGE-101", "FORGE-106", "FORGE-113")
def test_any_mcp_host_is_the_coder_of_a_team_and_learns_what_is_missing(world: World) -> None:
    make_ready_for_threads()
    team, ready = Team([(SCOUT, SCOUTED), (AUDITOR, AUDITED), (SCOUT, SCOUTED), (AUDITOR, AUDITED)]), Event()
    with (
        ThreadPoolExecutor(1) as pool,
        served_in_background(world.app.gateway, world.app.tokens, lambda _line: None) as url,
    ):
        building = pool.submit(team.build, world, ready.set, by_host=True)
        assert ready.wait(LONGEST_SECONDS)
        with over_http(url, token_for(world, CODER, project=PROJECT, build=BUILD)) as client:
            host = Host(client)
            begun = host.wait()
            assert (begun["phase"], begun["phase_name"], begun["missing"]) == (0, "Genesis", "")
            assert "boundaries /layers/1: a store returns" in begun["scout_report"]
            host.phase(PHASE_0, TASKS_0)
            assert client.call("run_tests", {"command": "true"}).code == "forbidden_tool_for_role"
            refused = host.sign_off(0, EVIDENCE_0[:1])
            assert refused["missing"].startswith("- Deliverable 2, ")
            assert host.sign_off(0, EVIDENCE_0)["phase"] == 1
            host.phase(PHASE_1, TASKS_1)
            ended = host.sign_off(1, EVIDENCE_1)
            late = client.call("write_file", {"path": "notes/late.py", "content": ""}).code
        cycle = building.result(LONGEST_SECONDS)
    assert late in ("other_roles_turn", "build_ended")
    assert (ended["complete"], ended["at_work"], ended["text"]) == (
        True, "", "Every phase is signed off. Your work is done.",
    )  # fmt: skip
    assert ([each.tests for each in cycle.sign_offs], len(cycle.refused), team.asked(CODER)) == ([3, 4], 1, 0)
    log = git(world.root, "log", "--format=%s", f"main..forge/build-{BUILD}").splitlines()
    assert log[0].startswith("[forge] sealed — verdict: C")
