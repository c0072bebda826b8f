"""Sessions of the broker: they belong to the token, and no name or session reaches further than the token does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.errors import InvalidCliArgs
from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import BrokerSession, ForgeProject, ForgeUser
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.tokens import TokenClaims, TokenOrder
from tests.forge.broker.shelves import Agent, edit, keep, pin, shelve
from tests.forge.sample_contracts import CONTRACTS
from tests.world import World, make_repository

ORCHESTRATOR, CODER, SCOUT, FIXER = Role.ORCHESTRATOR, Role.CODER, Role.SCOUT, Role.FIXER
FAR = "2999-01-01T00:00:00Z"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two projects with a build each, and the project of another user."""
    made = World(make_repository(tmp_path / "repo"))
    for name in ("birds", "boats"):
        pin(made, shelve(made, name))
        keep(made, name, "plan", "one", f"The plan of {name}.", until=FAR)
    now = "2026-11-17T08:00:00Z"
    with made.app.record.write() as tx:
        tx.put(ForgeUser(version=1, user_id="eve", created_at=now), "eve")
        foreign = ForgeProject(
            version=1, project_id="foreign", name="foreign", owner="eve", created_at=now, updated_at=now
        )
        tx.put(foreign, "foreign")
    yield made
    made.close()


def artifact(agent: Agent, **arguments: Any) -> Any:
    return agent.ok("forge_get_artifact", type="plan", key="one", **arguments)["content"]


@pytest.mark.req("FORGE-082", "FORGE-087")
def test_a_session_fills_what_a_call_leaves_out_and_a_name_overrides_it(world: World) -> None:
    agent = Agent(world, ORCHESTRATOR)
    assert agent.code("forge_get_artifact", type="plan", key="one") == "no_project_in_session"
    told = agent.ok("forge_set_session", project_id="birds", build_id="birds-b1", user_id="local")
    assert told == {"ok": True, "project_id": "birds", "build_id": "birds-b1", "user_id": "local"}
    assert (artifact(agent), artifact(agent, project_id="boats")) == ("The plan of birds.", "The plan of boats.")
    assert artifact(agent) == "The plan of birds."
    agent.ok("forge_set_session", project_id="boats")
    assert artifact(agent) == "The plan of boats."


@pytest.mark.req("FORGE-078", "FORGE-082")
def test_two_tokens_have_two_sessions_at_once(world: World) -> None:
    one, two = Agent(world, ORCHESTRATOR), Agent(world, ORCHESTRATOR)
    one.ok("forge_set_session", project_id="birds")
    two.ok("forge_set_session", project_id="boats")
    assert (artifact(one), artifact(two)) == ("The plan of birds.", "The plan of boats.")
    with world.app.record.read() as view:
        assert sorted(each.project_id for each in view.all(BrokerSession)) == ["birds", "boats"]


@pytest.mark.req("FORGE-087")
def test_a_token_made_for_a_project_has_its_session_from_the_start(world: World) -> None:
    agent = Agent(world, ORCHESTRATOR, project="birds")
    assert artifact(agent) == "The plan of birds."


FOREIGN = [
    {"project_id": "boats"},
    {"project_id": "foreign"},
    {"project_id": "nothing"},
    {"project_id": "birds", "build_id": "boats-b1"},
    {"project_id": "birds", "build_id": "nothing"},
    {"project_id": "boats", "build_id": "birds-b1"},
    {"project_id": "birds", "user_id": "eve"},
]


@pytest.mark.req("FORGE-078")
@pytest.mark.parametrize("names", FOREIGN, ids=str)
def test_a_session_moves_only_within_the_reach_of_its_token(world: World, names: dict[str, str]) -> None:
    agent = Agent(world, ORCHESTRATOR, project="birds")
    assert agent.code("forge_set_session", **names) in ("unknown_project", "unknown_build")
    assert artifact(agent) == "The plan of birds."


@pytest.mark.req("FORGE-078")
def test_a_project_of_another_token_or_user_is_answered_like_one_that_is_not_there(world: World) -> None:
    agent = Agent(world, SCOUT, project="birds")
    told = [
        str(agent.error("forge_get_project_contract", contract_type="stack", project_id=name)).replace(name, "NAME")
        for name in ("boats", "foreign", "nothing")
    ]
    assert told == [told[0]] * 3
    fixer = Agent(world, FIXER, project="birds", build="birds-b1")
    told = [
        str(fixer.error("forge_get_build_contracts", build_id=name)).replace(name, "NAME")
        for name in ("boats-b1", "nothing")
    ]
    assert told == [told[0]] * 2


@pytest.mark.req("FORGE-095", "FORGE-106")
def test_a_token_made_for_a_build_never_sees_the_project_without_it(world: World) -> None:
    edit(world, "birds", ContractType.UI, "# Edited\n")
    coder = Agent(world, CODER, project="birds", build="birds-b1")
    for names in ({}, {"project_id": "birds"}):
        answer = coder.ok("forge_get_project_contract", contract_type="ui", **names)
        assert (answer["source"], answer["content"]) == ("snapshot", CONTRACTS[ContractType.UI])
    lead = Agent(world, ORCHESTRATOR, project="birds", build="birds-b1")
    assert lead.ok("forge_set_session", project_id="birds")["build_id"] == "birds-b1"


def test_a_person_at_the_terminal_has_no_session_to_move(world: World) -> None:
    assert world.refusal("forge_set_session", project_id="birds")["code"] == "invalid_arguments"


def test_a_token_for_a_project_opens_no_feature(world: World) -> None:
    world.init("one")
    agent = Agent(world, ORCHESTRATOR, project="birds")
    assert agent.code("feature.get_context", feature_id="one") == "forbidden_tool_for_role"


def test_a_role_without_contracts_gets_no_token_for_a_project(world: World) -> None:
    with pytest.raises(InvalidCliArgs, match="cannot be restricted to a project"):
        world.app.tokens.issue(TokenOrder(role=Role.QA, project_id="birds"), by="person:ada")


def test_claims_of_a_token_without_project_and_build_are_still_read() -> None:
    old = '{"iss":"aop","aud":"a","jti":"t","sub":"qa:*","role":"qa","feature":null,"run":null,"iat":1,"exp":2}'
    claims = msgspec.json.decode(old, type=TokenClaims)
    assert (claims.project, claims.build) == (None, None)


@pytest.mark.req("FORGE-040", "FORGE-041")
def test_a_scratchpad_is_written_read_appended_to_and_listed(world: World) -> None:
    agent = Agent(world, CODER, project="birds", build="birds-b1")
    agent.ok("forge_scratchpad", operation="write", key="plan", value="one")
    written = agent.ok("forge_scratchpad", operation="append", key="plan", value=", two")
    assert written == {"project_id": "birds", "build_id": "birds-b1", "key": "plan", "value": "one, two"}
    agent.ok("forge_scratchpad", operation="append", key="new", value="begun")
    assert agent.ok("forge_scratchpad", operation="read", key="plan")["value"] == "one, two"
    assert agent.ok("forge_scratchpad", operation="list")["keys"] == ["new", "plan"]
    agent.ok("forge_scratchpad", operation="write", key="plan", value="three")
    assert agent.ok("forge_scratchpad", operation="read", key="plan")["value"] == "three"


@pytest.mark.req("FORGE-043")
def test_scratchpads_of_two_builds_never_mix_and_outlive_a_token(world: World) -> None:
    birds, boats = (Agent(world, CODER, project=name, build=f"{name}-b1") for name in ("birds", "boats"))
    birds.ok("forge_scratchpad", operation="write", key="plan", value="Of birds.")
    assert boats.code("forge_scratchpad", operation="read", key="plan") == "unknown_note"
    assert boats.ok("forge_scratchpad", operation="list")["keys"] == []
    later = Agent(world, FIXER, project="birds", build="birds-b1")
    assert later.ok("forge_scratchpad", operation="read", key="plan")["value"] == "Of birds."


WRONG_NOTES = [
    {"operation": "read"},
    {"operation": "write", "key": "plan"},
    {"operation": "write", "value": "x"},
    {"operation": "write", "key": "a/b", "value": "x"},
    {"operation": "write", "key": "contracts_read", "value": "x"},
    {"operation": "write", "key": "plan", "value": "x" * 50_001},
    {"operation": "erase", "key": "plan"},
]


@pytest.mark.req("FORGE-040")
@pytest.mark.parametrize("wrong", WRONG_NOTES, ids=lambda wrong: str(wrong)[:60])
def test_a_wrong_note_is_refused_and_changes_nothing(world: World, wrong: dict[str, str]) -> None:
    agent = Agent(world, CODER, project="birds", build="birds-b1")
    assert agent.code("forge_scratchpad", **wrong) == "invalid_arguments"
    assert agent.ok("forge_scratchpad", operation="list")["keys"] == []


def test_a_note_cannot_grow_without_end_and_keeps_no_secret(world: World) -> None:
    agent = Agent(world, CODER, project="birds", build="birds-b1")
    agent.ok("forge_scratchpad", operation="write", key="plan", value="x" * 50_000)
    assert agent.code("forge_scratchpad", operation="append", key="plan", value="x") == "invalid_arguments"
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    kept = agent.ok("forge_scratchpad", operation="write", key="plan", value=f"token {secret}")["value"]
    assert secret not in kept
    agent.ok("forge_scratchpad", operation="write", key="plan", value=secret[:10])
    assert secret not in agent.ok("forge_scratchpad", operation="append", key="plan", value=secret[10:])["value"]
    assert Agent(world, CODER, project="birds").code("forge_scratchpad", operation="list") == "no_build_in_session"


def test_an_operation_id_of_another_build_does_not_open_its_notes(world: World) -> None:
    agents = {}
    for name in ("alpha", "beta"):
        shelve(world, name)
        agents[name] = Agent(world, Role.CODER, build=pin(world, name))
    agents["alpha"].ok("forge_scratchpad", operation="write", key="plan", value="of alpha")

    def read(name: str) -> Envelope:
        asked = {"operation": "read", "key": "plan"}
        return world.app.gateway.call(agents[name].principal, "forge_scratchpad", asked, operation_id="op-1")

    assert read("alpha").ok
    error = read("beta").error
    assert error is not None
    assert error["code"] == "idempotency_mismatch"
