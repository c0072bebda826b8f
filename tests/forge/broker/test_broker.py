"""The broker: an agent reads the contracts of its own project and build, and each answer says where it is from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.forge.broker.phase_windows import window_of
from aop.forge.contracts.examples import example_of
from aop.forge.contracts.types import CONTRACT_TYPES, OTHER_NAMES, ContractType
from aop.wiring.catalogue import CATALOGUE
from tests.forge.broker.shelves import ROLE_TOOLS, Agent, edit, keep, pin, shelve
from tests.forge.sample_contracts import CONTRACTS
from tests.world import World, make_repository

FAR, GONE = "2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
BUILDER, SCOUT, CODER, AUDITOR, FIXER = Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER
MANIFESTO = ContractType.MANIFESTO


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two projects, `birds` and `boats`, and `draft` without contracts; `birds` was edited after it was pinned."""
    world = World(make_repository(tmp_path_factory.mktemp("shelf") / "repo"))
    for name in ("birds", "boats"):
        shelve(world, name)
    world.ok("forge.project_new", name="draft")
    pin(world, "birds")
    pin(world, "boats")
    edit(world, "birds", MANIFESTO, "# Edited\n\nThis came later.\n")
    yield world
    world.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()


def fetched(world: World) -> list[dict[str, Any]]:
    with world.app.record.read() as view:
        return [dict(entry.event.payload) for entry in view.journal(kinds=("contract_fetched",))]


@pytest.mark.req("FORGE-099", "FORGE-100", "FORGE-101", "FORGE-102", "FORGE-103")
@pytest.mark.parametrize("role", sorted(Role))
def test_a_role_is_listed_exactly_its_tools_for_contracts(shelf: World, role: Role) -> None:
    listed = (
        [each.name for each in shelf.app.gateway.tools_for(Agent(shelf, role).principal)] if role != "system" else []
    )
    assert [name for name in listed if name.startswith("forge_")] == ROLE_TOOLS.get(role, [])


@pytest.mark.req("FORGE-104")
@pytest.mark.parametrize("role", sorted(ROLE_TOOLS))
def test_a_tool_of_another_role_is_refused_at_dispatch(shelf: World, role: Role) -> None:
    others = {name for name in CATALOGUE if name.startswith("forge_")} - {*ROLE_TOOLS[role]}
    agent = Agent(shelf, role, project="birds")
    assert {agent.code(name) for name in others} == {"forbidden_tool_for_role"}


@pytest.mark.req("FORGE-083", "FORGE-095", "FORGE-117")
def test_a_pinned_build_is_served_what_it_began_with(shelf: World) -> None:
    answer = Agent(shelf, CODER, project="birds", build="birds-b1").ok(
        "forge_get_project_contract", contract_type="manifesto"
    )
    assert answer == {
        "project_id": "birds",
        "build_id": "birds-b1",
        "batch": 1,
        "contract_type": "manifesto",
        "version": 1,
        "source": "snapshot",
        "content": CONTRACTS[MANIFESTO],
    }


@pytest.mark.req("FORGE-083", "FORGE-117")
def test_without_a_build_the_newest_contract_is_served(shelf: World) -> None:
    answer = Agent(shelf, AUDITOR, project="birds").ok("forge_get_project_contract", contract_type="manifesto")
    assert answer == {
        "project_id": "birds",
        "build_id": None,
        "batch": 2,
        "contract_type": "manifesto",
        "version": 2,
        "source": "db",
        "content": "# Edited\n\nThis came later.\n",
    }


@pytest.mark.req("FORGE-090", "FORGE-115", "FORGE-117")
def test_a_missing_contract_is_a_template_and_says_so(shelf: World) -> None:
    answer = Agent(shelf, SCOUT, project="draft").ok("forge_get_project_contract", contract_type="stack")
    assert (answer["source"], answer["version"], answer["batch"]) == ("template", None, None)
    assert (answer["project_id"], answer["content"]) == ("draft", example_of(ContractType.STACK))


@pytest.mark.req("FORGE-032", "FORGE-088")
def test_without_a_session_a_contract_is_a_template_of_no_project(shelf: World) -> None:
    agent = Agent(shelf, BUILDER)
    answer = agent.ok("forge_get_contract", name="schema")
    assert (answer["source"], answer["project_id"], answer["content"]) == (
        "template",
        None,
        example_of(ContractType.SCHEMA),
    )
    assert agent.code("forge_get_phase_window", phase_number=0) == "no_project_in_session"


@pytest.mark.req("FORGE-032", "FORGE-038")
def test_fifteen_names_are_known(shelf: World) -> None:
    agent = Agent(shelf, BUILDER, project="birds")
    answer = agent.ok("forge_list_contracts")
    assert (answer["project_id"], answer["build_id"], answer["batch"]) == ("birds", None, 2)
    rows = {row["name"]: (row["file"], row["format"], row["version"], row["source"]) for row in answer["contracts"]}
    assert list(rows) == [*CONTRACT_TYPES, *OTHER_NAMES]
    assert (rows["manifesto"], rows["physics"], rows["boundaries"], rows["system_prompt"], rows["remediation"]) == (
        ("manifesto.md", "markdown", 2, "db"),
        ("physics.yaml", "yaml", 1, "db"),
        ("boundaries.json", "json", 1, "db"),
        ("system_prompt.md", "markdown", None, "template"),
        ("remediation.md", "markdown", None, "artifact"),
    )
    readable = [name for name in rows if name not in ("phases", "remediation", "desktop_distribution_plan")]
    assert {agent.ok("forge_get_contract", name=name)["contract_type"] for name in readable} == set(readable)


@pytest.mark.req("FORGE-032")
def test_json_is_indented(world: World) -> None:
    compact = json.dumps(json.loads(CONTRACTS[ContractType.BOUNDARIES]), separators=(",", ":"))
    shelve(world, "birds", {**CONTRACTS, ContractType.BOUNDARIES: compact})
    content = Agent(world, CODER, project="birds").ok("forge_get_contract", name="boundaries")["content"]
    assert (json.loads(content), "\n  " in content) == (json.loads(compact), True)


@pytest.mark.req("FORGE-033")
@pytest.mark.parametrize(
    ("tool", "named"), [("forge_get_contract", "name"), ("forge_get_project_contract", "contract_type")]
)
def test_the_whole_of_the_phases_is_refused_in_favour_of_a_window(shelf: World, tool: str, named: str) -> None:
    error = Agent(shelf, CODER, project="birds").error(tool, **{named: "phases"})
    assert error["code"] == "phases_by_window"
    assert error["message"].startswith("Use forge_get_phase_window(phase_number) instead")


@pytest.mark.req("FORGE-034")
@pytest.mark.parametrize("name", ["nobody", "remediation", "../stack", "x" * 200])
def test_a_contract_that_is_nowhere_is_refused(shelf: World, name: str) -> None:
    error = Agent(shelf, BUILDER, project="birds").error("forge_get_contract", name=name)
    assert (error["code"], error["details"]["contracts"]) == ("unknown_contract", [*CONTRACT_TYPES, *OTHER_NAMES])


@pytest.mark.req("FORGE-077", "FORGE-117")
def test_an_artifact_comes_last_and_only_within_its_day(world: World) -> None:
    shelve(world, "birds")
    agent = Agent(world, BUILDER, project="birds")
    keep(world, "birds", "contract", "remediation", {"steps": [1]}, until=FAR)
    keep(world, "birds", "contract", "desktop_distribution_plan", "Too late.", until=GONE)
    keep(world, "birds", "contract", "stack", "Never served: the project has one.", until=FAR)
    answer = agent.ok("forge_get_contract", name="remediation")
    assert (answer["source"], json.loads(answer["content"])) == ("artifact", {"steps": [1]})
    assert agent.code("forge_get_contract", name="desktop_distribution_plan") == "unknown_contract"
    assert agent.ok("forge_get_contract", name="stack")["source"] == "db"
    assert agent.ok("forge_get_contract", name="builder_contract")["source"] == "template"


@pytest.mark.req("FORGE-035")
def test_a_window_is_a_phase_and_the_next_one(shelf: World) -> None:
    answer = Agent(shelf, CODER, project="birds", build="birds-b1").ok("forge_get_phase_window", phase_number=0)
    phases = CONTRACTS[ContractType.PHASES]
    text = phases[phases.index("## Phase 0") : phases.index("## Phase 2")].rstrip() + "\n"
    assert answer == {
        "project_id": "birds",
        "build_id": "birds-b1",
        "batch": 1,
        "source": "snapshot",
        "version": 1,
        "phase_number": 0,
        "last_phase": answer["last_phase"],
        "content": text,
    }


@pytest.mark.req("FORGE-037")
def test_the_last_phase_comes_alone_and_other_numbers_are_refused(shelf: World) -> None:
    agent = Agent(shelf, BUILDER, project="birds")
    last = agent.ok("forge_get_phase_window", phase_number=0)["last_phase"]
    assert agent.ok("forge_get_phase_window", phase_number=last)["content"].count("## Phase") == 1
    assert agent.code("forge_get_phase_window", phase_number=last + 1) == "unknown_phase"
    assert agent.code("forge_get_phase_window", phase_number=-1) == "invalid_arguments"


@pytest.mark.req("FORGE-036", "FORGE-037")
def test_a_project_without_phases_has_no_window(shelf: World) -> None:
    error = Agent(shelf, BUILDER, project="draft").error("forge_get_phase_window", phase_number=0)
    assert (error["code"], error["message"]) == ("unknown_phase", "Error: phases.md not found in Forge/Contracts/")
    with pytest.raises(Exception, match="has no `## Phase` heading"):
        window_of("# Phases\n", 0)


@pytest.mark.req("FORGE-039")
def test_the_summary_has_layers_rules_and_a_line_for_each_contract(shelf: World) -> None:
    answer = Agent(shelf, AUDITOR, project="boats").ok("forge_get_summary")
    boundaries = json.loads(CONTRACTS[ContractType.BOUNDARIES])
    assert [layer["name"] for layer in answer["layers"]] == [layer["name"] for layer in boundaries["layers"]]
    assert len(answer["invariants"]) == sum(len(layer.get("forbidden", ())) for layer in boundaries["layers"])
    assert [row["name"] for row in answer["contracts"]] == list(CONTRACT_TYPES)
    assert answer["contracts"][0] == {
        "name": "manifesto",
        "version": 1,
        "source": "db",
        "brief": CONTRACTS[MANIFESTO].splitlines()[3],
    }
    assert max(len(row["brief"]) for row in answer["contracts"]) <= 120


@pytest.mark.parametrize(
    ("contract_type", "section", "begins"),
    [("stack", "Backend", "## Backend\n"), ("physics", "/info", "title:"), ("boundaries", "/layers/0", '{\n  "')],
)
def test_a_section_is_served_with_the_outline(shelf: World, contract_type: str, section: str, begins: str) -> None:
    agent = Agent(shelf, CODER, project="boats")
    answer = agent.ok("forge_get_project_contract", contract_type=contract_type, section=section)
    whole = agent.ok("forge_get_project_contract", contract_type=contract_type)
    assert (answer["section"], answer["content"][: len(begins)]) == (section, begins)
    assert section in answer["outline"]
    assert (len(answer["content"]) < len(whole["content"]), "outline" in whole) == (True, False)


def test_a_section_that_is_not_there_is_refused_with_those_that_are(shelf: World) -> None:
    error = Agent(shelf, CODER, project="boats").error(
        "forge_get_project_contract", contract_type="stack", section="Bakcend"
    )
    assert (error["code"], "Backend" in error["details"]["sections"]) == ("unknown_section", True)


def test_a_contract_over_20000_tokens_is_answered_with_its_outline_alone(world: World) -> None:
    long = "# Long\n\n## First\n" + "One two three four five. " * 5000 + "\n## Second\nShort.\n"
    shelve(world, "birds", {**CONTRACTS, ContractType.UI: long})
    pin(world, "birds")
    agent = Agent(world, CODER, project="birds")
    answer = agent.ok("forge_get_project_contract", contract_type="ui")
    assert (answer["content"], answer["is_outline_only"], answer["outline"]) == ("", True, ["Long", "First", "Second"])
    part = agent.ok("forge_get_project_contract", contract_type="ui", section="Second")
    assert (part["content"], "is_outline_only" in part) == ("## Second\nShort.\n", False)
    all_nine = Agent(world, FIXER, project="birds", build="birds-b1").ok("forge_get_build_contracts")["items"]
    assert {(row["content"], row["is_outline_only"]) for row in all_nine} == {("", True)}


@pytest.mark.req("FORGE-084")
def test_the_contracts_of_a_project_are_listed_with_their_versions(shelf: World) -> None:
    live = Agent(shelf, CODER, project="birds").ok("forge_list_project_contracts")
    pinned = Agent(shelf, CODER, project="birds", build="birds-b1").ok("forge_list_project_contracts")
    assert [row["contract_type"] for row in live["items"]] == list(CONTRACT_TYPES)
    assert [(each["batch"], each["source"], each["items"][0]["version"]) for each in (live, pinned)] == [
        (2, "db", 2),
        (1, "snapshot", 1),
    ]
    assert Agent(shelf, CODER, project="draft").ok("forge_list_project_contracts")["items"] == []


@pytest.mark.req("FORGE-085", "FORGE-107")
def test_the_context_of_a_project_is_metadata_and_no_contract(shelf: World) -> None:
    answer = Agent(shelf, SCOUT, project="birds", build="birds-b1").ok("forge_get_project_context")
    assert answer["project"] == {
        "id": "birds",
        "name": "birds",
        "status": "contracts_generated",
        "mode": "full",
        "flow": "greenfield",
    }
    assert (answer["source"], answer["batch"], answer["latest_batch"]) == ("snapshot", 1, 2)
    sizes = {row["contract_type"]: row["size_chars"] for row in answer["contracts"]}
    assert sizes == {each.value: len(CONTRACTS[each]) for each in CONTRACT_TYPES}
    assert len(json.dumps(answer)) < 2500


@pytest.mark.req("FORGE-086", "FORGE-110")
def test_a_fixer_reads_what_its_build_is_pinned_to(shelf: World) -> None:
    agent = Agent(shelf, FIXER, project="birds", build="birds-b1")
    answer = agent.ok("forge_get_build_contracts", contract_types=["manifesto", "stack"])
    assert (answer["batch"], answer["source"], bool(answer["pinned_at"])) == (1, "snapshot", True)
    assert answer["items"] == [
        {"contract_type": each.value, "version": 1, "content": CONTRACTS[each]}
        for each in (MANIFESTO, ContractType.STACK)
    ]
    (part,) = agent.ok("forge_get_build_contracts", contract_types=["stack"], section="Backend")["items"]
    assert (part["content"].startswith("## Backend\n"), "Backend" in part["outline"]) == (True, True)
    assert agent.code("forge_get_build_contracts", section="Backend") == "invalid_arguments"
    assert Agent(shelf, FIXER, project="birds").code("forge_get_build_contracts") == "no_build_in_session"


READ_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from aop.core.roles import Role
from tests.forge.broker.shelves import Agent
from tests.world import World

world = World(Path(sys.argv[1]))
agent = Agent(world, Role.CODER, project="birds")
who = agent.principal
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
answer = world.app.gateway.call(who, "forge_get_project_contract", {"contract_type": "stack"})
print(answer.data["source"])
"""


def test_a_full_disk_keeps_no_agent_from_reading(world: World) -> None:
    shelve(world, "birds")
    command = [sys.executable, "-c", READ_ON_A_FULL_DISK, str(world.root)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.returncode) == ("db\n", 0), ran.stderr
    assert fetched(world) == []


@pytest.mark.req("FORGE-069", "FORGE-112")
def test_each_fetch_is_counted_by_role_and_a_refused_one_is_not(world: World) -> None:
    shelve(world, "birds")
    pin(world, "birds")
    coder = Agent(world, CODER, project="birds", build="birds-b1")
    fixer = Agent(world, FIXER, project="birds", build="birds-b1")
    coder.ok("forge_get_project_contract", contract_type="stack", section="Backend")
    coder.ok("forge_get_phase_window", phase_number=1)
    coder.code("forge_get_project_contract", contract_type="stack", section="Nothing")
    coder.ok("forge_list_contracts")
    fixer.ok("forge_get_build_contracts", contract_types=["schema"])
    world.ok("forge_get_project_contract", role=CODER, contract_type="ui", project_id="birds")
    common = {"project_id": "birds", "build_id": "birds-b1", "number": 1, "source": "snapshot"}
    assert fetched(world) == [
        {**common, "contract_type": "stack", "role": "coder", "section": "Backend"},
        {**common, "contract_type": "phases", "role": "coder", "section": "Phase 1"},
        {**common, "contract_type": "schema", "role": "fixer", "section": None},
    ]
    read = fixer.ok("forge_scratchpad", operation="read", key="contracts_read")
    assert read["value"] == "stack (Backend) by coder\nphases (Phase 1) by coder\nschema by fixer"
