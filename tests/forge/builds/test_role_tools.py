"""Tools of the roles of a build, as the gateway offers them to their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from aop.core.roles import Role
from aop.forge.builds.run.crew.crew_events import phase_lines
from aop.kernel.ports.git import FileMode
from tests.forge.broker.shelves import Agent
from tests.forge.builds.begun import begun
from tests.forge.builds.cycles import begin, cycle_of
from tests.world import World, make_repository

READ = {"read_file", "list_directory", "search_code", "forge_scratchpad"}
CONTRACTS = {"forge_get_contract", "forge_list_contracts", "forge_get_summary"}
OF_PROJECT = {"forge_get_project_contract", "forge_list_project_contracts"}
PEOPLE = {"forge_ask_clarification", "forge_read_notepad"}
WRITE = {"write_file", "edit_file", "check_syntax", "run_command"}
BRANCH = {"forge_get_branch_status", "forge_list_branch_commits"}

TOOLS: Mapping[Role, set[str]] = {
    Role.FORGE_BUILDER: READ | CONTRACTS | PEOPLE | WRITE | BRANCH | {"forge_get_phase_window", "run_tests"},
    Role.SCOUT: READ | CONTRACTS | OF_PROJECT | PEOPLE | {"forge_get_project_context", "forge_get_phase_window"},
    Role.CODER: READ | CONTRACTS | OF_PROJECT | PEOPLE | WRITE | {"forge_get_phase_window", "forge_report_progress"},
    Role.AUDITOR: READ | CONTRACTS | OF_PROJECT,
    Role.FIXER: READ | {"edit_file", "check_syntax", "forge_get_build_contracts"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("roles") / "repo"))
    begun(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("team") / "repo"))
    begin(made, crew="team")
    yield made
    made.close()


@pytest.mark.req("FORGE-023", "FORGE-100", "FORGE-101", "FORGE-102", "FORGE-103", "FORGE-104")
@pytest.mark.parametrize("role", TOOLS)
def test_a_role_of_a_build_has_its_own_tools_and_every_other_is_refused(world: World, role: Role) -> None:
    agent = Agent(world, role, project="shop", build="shop-b1")
    assert {tool.name for tool in world.app.gateway.tools_for(agent.principal)} == TOOLS[role]
    others = set(world.app.gateway.tools) - TOOLS[role]
    refusals = {name: agent.call(name).error for name in sorted(others)}
    codes = {name: error and error["code"] for name, error in refusals.items()}
    assert set(codes.values()) == {"forbidden_tool_for_role"}


@pytest.mark.req("FORGE-103", "FORGE-104")
@pytest.mark.parametrize("role", [Role.FORGE_BUILDER, Role.CODER, Role.FIXER])
def test_only_the_role_whose_turn_it_is_changes_the_files_of_a_team(team: World, role: Role) -> None:
    agent = Agent(team, role, project="shop", build="shop-b1")
    edits = [{"old": "a", "new": "b"}]
    assert agent.code("edit_file", path="README.md", edits=edits) == "other_roles_turn"


def test_the_lines_of_a_diff_that_is_too_large_are_all_lines_of_its_files(team: World) -> None:
    kernel, cycle = team.app.gateway.kernel, cycle_of(team)
    content = b"x" * 1000 + b"\n"
    tree = kernel.git.objects.tree_with(
        kernel.git.objects.tree_of(cycle.baseline_sha), {"large.txt": (FileMode.FILE, content * 5_000)}
    )
    assert phase_lines(kernel, cycle, tree) == {"large.txt": frozenset(range(1, 5_002))}
