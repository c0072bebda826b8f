"""Projects and their contracts in the record: owners, batches that are whole, versions that are written once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aop.core import errors
from aop.core.digests import sha256_hex
from aop.core.errors import Fault, UnknownForgeProject
from aop.core.roles import Role
from aop.core.text.json import canonical_json
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.batches import contract_in, contracts_in, current_contract, newest_batch, versions_of
from aop.forge.projects.documents import ContractVersion, ForgeProject, ForgeUser, contract_key
from aop.forge.projects.owners import the_project
from aop.kernel.gateway.principals import Principal
from tests.forge.projects import NINE, stored
from tests.world import World, make_repository

UI = ContractType.UI


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    yield made
    made.close()


def journal(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.kind for entry in view.journal()]


def test_a_project_begins_as_a_draft_of_the_local_user(world: World) -> None:
    made = world.ok("forge.project_new", name="  Corner   Shop ", mode="mini")
    expected = {
        "project_id": "corner-shop",
        "name": "Corner Shop",
        "owner": "local",
        "mode": "mini",
        "flow": "greenfield",
        "status": "draft",
        "batch": 0,
        "build_count": 0,
        "scan_run": "",
        "is_planned": False,
        "answered": [],
        "sha256": "",
        "contracts": [],
        "builds": [],
        "contradictions": [],
    }
    assert {name: value for name, value in made.items() if not name.endswith("_at")} == expected
    assert made["created_at"] == made["updated_at"]
    assert world.ok("forge.project_show", project_id="corner-shop") == made
    with world.app.record.read() as view:
        assert [user.user_id for user in view.all(ForgeUser)] == ["local"]
    assert journal(world) == ["project_begun"]


def test_projects_are_listed_by_id(world: World) -> None:
    for name in ("Shop", "Blog"):
        world.ok("forge.project_new", name=name)
    rows = world.ok("forge.project_list")["projects"]
    assert [(row["project_id"], row["name"], row["status"]) for row in rows] == [
        ("blog", "Blog", "draft"),
        ("shop", "Shop", "draft"),
    ]


def test_a_second_project_of_one_name_is_refused(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    error = world.refusal("forge.project_new", name="shop!")
    assert (error["code"], error["details"]["project_id"]) == ("project_exists", "shop")


@pytest.mark.parametrize("name", ["", "!!!", "挨拶", "x" * 121, "\ud800"], ids=ascii)
def test_a_name_without_an_id_in_it_is_refused(world: World, name: str) -> None:
    assert world.refusal("forge.project_new", name=name)["code"] == "invalid_arguments"


def test_a_secret_in_a_name_is_not_kept(world: World) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    made = world.ok("forge.project_new", name=f"Shop {secret}")
    assert "A1b2" not in str(made)
    assert b"A1b2C3" not in (world.root / ".aop/record.db").read_bytes()


@pytest.mark.parametrize("project_id", ["blog", "../shop", "shop ", "SHOP", "x" * 200])
def test_an_unknown_project_is_refused_by_name(world: World, project_id: str) -> None:
    world.ok("forge.project_new", name="Shop")
    assert world.refusal("forge.project_show", project_id=project_id)["code"] == "unknown_project"


def test_a_foreign_project_is_answered_like_one_that_does_not_exist(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    eve = msgspec.structs.replace(world.app.person, user="eve")
    gateway = world.app.gateway
    seen = gateway.call(eve, "forge.project_show", {"project_id": "shop"}).error
    unknown = gateway.call(eve, "forge.project_show", {"project_id": "shoq"}).error
    assert seen is not None
    assert unknown is not None
    assert str(seen).replace("shop", "shoq") == str(unknown)
    assert gateway.call(eve, "forge.project_list", {}).data == {"projects": []}
    # Her own project of that name gets another id, and so tells her nothing either.
    assert gateway.call(eve, "forge.project_new", {"name": "Shop"}).data["project_id"] == "shop-2"


def test_a_token_of_one_project_reaches_no_other_one(world: World) -> None:
    for name in ("Shop", "Blog"):
        world.ok("forge.project_new", name=name)
    who = Principal(role=Role.SCOUT, actor="scout", project="blog")
    with world.app.record.read() as view:
        assert the_project(view, "blog", who).name == "Blog"
        with pytest.raises(UnknownForgeProject, match=r"There is no project `shop`\.$"):
            the_project(view, "shop", who)


@pytest.mark.parametrize("tool", ["forge.project_new", "forge.project_list", "forge.project_show"])
def test_no_token_opens_the_tools_of_people(world: World, tool: str) -> None:
    agent = Principal(role=Role.ORCHESTRATOR, actor="orchestrator")
    error = world.app.gateway.call(agent, tool, {"name": "Shop"}).error
    assert error is not None
    assert error["code"] == "forbidden_tool_for_role"


def test_no_hint_of_forge_names_a_tool_that_only_people_can_call(world: World) -> None:
    tools = [name for name, tool in world.app.gateway.tools.items() if name.startswith("forge.") and tool.person_only]
    hints = [each.hint for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.Refusal)]
    assert len(tools) > 10
    assert [hint for hint in hints for tool in tools if f"`{tool}`" in hint] == []


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.req("FORGE-237")
def test_nine_contracts_are_one_batch_one_event_and_the_next_status(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    batch = stored(world, "shop")
    digests = {each.value: sha256_hex(NINE[each].encode()) for each in CONTRACT_TYPES}
    assert batch.sha256 == sha256_hex(canonical_json(digests))
    with world.app.record.read() as view:
        project = the_project(view, "shop", world.app.person)
        assert (project.batch, project.status) == (1, "contracts_generated")
        assert {each.contract_type: each.content for each in contracts_in(view, batch)} == dict(NINE)
        (event,) = (entry.event for entry in view.journal(kinds=("contracts_stored",)))
    facts = {name: event.payload[name] for name in ("project_id", "batch", "sha256", "contracts")}
    numbers = dict.fromkeys(map(str, CONTRACT_TYPES), 1)
    assert facts == {"project_id": "shop", "batch": 1, "sha256": batch.sha256, "contracts": numbers}
    shown = world.ok("forge.project_show", project_id="shop")
    assert [(each["contract_type"], each["version"], each["sha256"]) for each in shown["contracts"]] == [
        (name, 1, digest) for name, digest in digests.items()
    ]


def test_a_changed_contract_is_a_new_version_in_a_new_batch_and_the_old_batch_stays(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    first = stored(world, "shop")
    second = stored(world, "shop", {UI: "Larger buttons.\n"}, author="person:ada")
    with world.app.record.read() as view:
        project = the_project(view, "shop", world.app.person)
        assert newest_batch(view, project) == second
        assert current_contract(view, project, UI) == contract_in(view, second, UI)
        assert contract_in(view, first, UI).content == NINE[UI]
        versions = [(each.number, each.content, each.author) for each in versions_of(view, "shop", UI)]
    assert versions == [(1, NINE[UI], "generated"), (2, "Larger buttons.\n", "person:ada")]
    assert (first.number, second.number) == (1, 2)
    assert {each: entry for each, entry in second.contracts.items() if each is not UI} == {
        each: entry for each, entry in first.contracts.items() if each is not UI
    }


def test_the_same_contents_again_change_nothing(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    first = stored(world, "shop")
    before = world.fingerprint()
    assert stored(world, "shop") == first
    assert world.fingerprint() == before


def test_there_is_no_half_batch(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    before = world.fingerprint()
    with pytest.raises(Fault, match="would be without: manifesto, blueprint"):
        stored(world, "shop", {UI: NINE[UI]})
    assert world.fingerprint() == before
    with world.app.record.read() as view:
        assert list(view.all(ContractVersion)) == []


def test_a_contract_version_is_never_written_twice(world: World) -> None:
    world.ok("forge.project_new", name="Shop")
    stored(world, "shop")
    key = contract_key("shop", UI, 1)
    with world.app.record.read() as view:
        version = view.get(ContractVersion, key)
    assert version is not None
    with pytest.raises(Fault, match=f"The contract `{key}` is not at version 0"), world.app.record.write() as tx:
        tx.put(msgspec.structs.replace(version, content="Another."), key)
    # Not even by a process that read the project before the first store.
    with world.app.record.read() as view:
        project = view.get(ForgeProject, "shop")
    assert project is not None
    assert project.batch == 1
