"""Host coder: an MCP client over HTTP is the coder of a team, at the door that its build opens."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from aop.core.errors import BuildEnded
from aop.forge.builds.tools.host_progress import LONGEST_EVENT, WAIT_SECONDS
from aop.mcpserver.in_background import served_in_background
from aop.wiring.build import make_ready_for_threads
from tests.clocks import clocked
from tests.forge.broker.shelves import Agent
from tests.forge.builds.cycles import cycle_of
from tests.forge.builds.notes_app import PHASE_0, PHASE_1
from tests.forge.builds.run.builders import BUILD, PROJECT, notes_repository
from tests.forge.builds.run.hosts import EVIDENCE_0, EVIDENCE_1, TASKS_0, TASKS_1, Host
from tests.forge.builds.run.teams import AUDITED, AUDITOR, CODER, SCOUT, SCOUTED, Team
from tests.mcpserver.clients import over_http, token_for
from tests.racing import until
from tests.world import World, git

LONGEST_SECONDS = 300.0
SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


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


def coder_of(world: World) -> Agent:
    return Agent(world, CODER, project=PROJECT, build=BUILD)


def test_a_host_goes_on_after_commits_of_people_and_a_build_that_is_cancelled_ends_its_command(world: World) -> None:
    make_ready_for_threads()
    with ThreadPoolExecutor(1) as pool:
        ready, host = Event(), coder_of(world)
        building = pool.submit(Team([(SCOUT, SCOUTED)]).build, world, ready.set, by_host=True)
        assert ready.wait(LONGEST_SECONDS)
        until(lambda: host.ok("forge_report_progress")["at_work"] == "coder")
        host.ok("forge_report_progress", event={"type": "plan", "tasks": [{"number": 1, "text": "Write"}]})
        host.ok("write_file", path="notes/store.py", content="x = 1\n")
        branch = f"refs/heads/{cycle_of(world, BUILD).branch}"
        by_hand = git(world.root, "commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", "By hand").strip()
        git(world.root, "update-ref", branch, by_hand)
        until(lambda: cycle_of(world, BUILD).head == by_hand)
        assert "1" in host.ok("forge_report_progress", event={"type": "task_done", "number": 1})["text"]
        assert git(world.root, "rev-parse", f"{branch}^").strip() == by_hand
        world.ok("forge.build_abandon", build_id=BUILD, reason="Enough.")
        assert isinstance(building.exception(LONGEST_SECONDS), BuildEnded)


def test_words_of_people_wait_for_the_role_at_work_and_a_secret_of_a_role_is_not_recorded(world: World) -> None:
    world.ok("forge.build_begin", project_id=PROJECT, crew="team")
    clock, host = clocked(world), coder_of(world)
    world.ok("forge.build_interject", build_id=BUILD, text="Use short names.")
    waited = host.ok("forge_report_progress")
    assert (waited["at_work"], waited["messages"], sum(clock.pauses)) == ("scout", [], WAIT_SECONDS)
    scouted = {"type": "scouted", "report": {"directives": [SECRET], "imports_map": {"a.py": [SECRET]}}}
    world.ok("forge.build_event", build_id=BUILD, event=scouted)
    assert host.ok("forge_report_progress")["messages"] == ["[USER INTERJECTION] Use short names."]
    plan = {"type": "plan", "tasks": [{"number": 1, "text": f"Use {SECRET}"}]}
    assert host.ok("forge_report_progress", event=plan)["phase"] == 0
    evidence = [{"deliverable": 1, "no_test_because": SECRET}]
    host.ok("forge_report_progress", event={"type": "sign_off", "phase": 0, "evidence": evidence})
    long = {"type": "stop", "code": "CONTRACT_CONFLICT", "reason": "x" * LONGEST_EVENT}
    assert host.code("forge_report_progress", event=long) == "invalid_arguments"
    host.ok("forge_report_progress", event={"type": "stop", "code": "CONTRACT_CONFLICT", "reason": SECRET})
    assert "[redacted:" in cycle_of(world, BUILD).hold_reason
    kept = [path for path in (world.root / ".aop").glob("record.db*") if SECRET.encode() in path.read_bytes()]
    assert kept == []


def test_a_host_is_told_that_a_solo_build_has_no_coder(world: World) -> None:
    world.ok("forge.build_begin", project_id=PROJECT)
    assert coder_of(world).code("forge_report_progress") == "invalid_arguments"
