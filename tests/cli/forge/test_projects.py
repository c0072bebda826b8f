"""`aop forge` as real processes: projects are begun, listed and shown."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aop.cli.forge.forge import ACTIONS
from tests.forge.projects import stored
from tests.world import Ran, World, make_repository, run_aop, run_aop_at_terminal


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def forge(root: Path, *words: str) -> Ran:
    return run_aop(root, "forge", *words)


def test_a_project_is_begun_listed_and_shown(repository: Path) -> None:
    said = (
        "Answer its questions with: aop forge ask corner-shop\n"
        "For a repository that exists already: aop forge scan corner-shop\n"
    )
    assert forge(repository, "list") == Ran(0, "", "No projects yet. Begin one with: aop forge new NAME\n")
    assert forge(repository, "new", "Corner Shop", "--mini") == Ran(0, "corner-shop\n", said)
    listed = "Project      Status  Mode  Batch  Name\ncorner-shop  draft   mini  -      Corner Shop\n"
    assert forge(repository, "list") == Ran(0, listed, "")
    shown = (
        "corner-shop: Corner Shop\n"
        "Status: draft (mini, greenfield)\n"
        "Answered: nothing yet\n"
        "Contracts: none yet. Answer its questions with: aop forge ask corner-shop;"
        " or read a repository: aop forge scan corner-shop\n"
    )
    assert forge(repository, "show", "corner-shop") == Ran(0, shown, "")


def test_the_contracts_of_a_project_are_shown_with_version_and_digest(repository: Path) -> None:
    forge(repository, "new", "Shop")
    world = World(repository)
    batch = stored(world, "shop")
    world.close()
    lines = forge(repository, "show", "shop").out.splitlines()
    assert lines[1] == "Status: contracts_generated (full, greenfield)"
    assert lines[3] == f"Contracts: batch 1, {batch.sha256}"
    assert [line.split()[:2] for line in lines[5:14]] == [[each, "1"] for each in batch.contracts]
    assert lines[14] == "Contradictions: 1"


def test_json_has_the_one_shape_of_all_commands(repository: Path) -> None:
    made = forge(repository, "--json", "new", "Shop").json
    assert (made["schema"], made["ok"], made["data"]["project_id"]) == ("aop/1", True, "shop")
    listed = forge(repository, "list", "--json").json
    assert [row["project_id"] for row in listed["data"]["projects"]] == ["shop"]
    refused = forge(repository, "show", "shob", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "unknown_project")
    assert refused.json["error"]["message"] == "There is no project `shob`. Did you mean `shop`?"


def test_a_refusal_names_the_next_command(repository: Path) -> None:
    ran = forge(repository, "show", "shop")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "aop: There is no project `shop`. [unknown_project]\n"
        "  Correct the id; a person lists projects with `aop forge list`, and begins one with `aop forge new NAME`.\n"
    )


def test_a_project_is_deleted_when_its_id_is_typed_and_the_evidence_stays(repository: Path) -> None:
    for name in ("Shop", "Blog"):
        forge(repository, "new", name)
    world = World(repository)
    for name in ("shop", "blog"):
        stored(world, name)
    world.close()
    kept = run_aop_at_terminal(repository, "forge", "delete", "shop", types="yes\n")
    asked = (
        "Project  shop: Shop\n"
        "Removes  its answers, 0 scans, 9 contract versions in 1 batch\n"
        "Builds   none\n"
        "This cannot be undone. Type `shop` to delete it: "
    )
    assert (kept.code, kept.err) == (3, f"{asked}Not deleted. Nothing changed.\n")
    assert forge(repository, "show", "shop").code == 0
    gone = run_aop_at_terminal(repository, "forge", "delete", "shop", types="shop\n")
    assert (gone.code, gone.err) == (0, f"{asked}Deleted shop. Its history: aop logs\n")
    assert forge(repository, "show", "shop", "--json").json["error"]["code"] == "unknown_project"
    assert [each["project_id"] for each in forge(repository, "list", "--json").json["data"]["projects"]] == ["blog"]
    proven = run_aop(repository, "evidence", "verify")
    assert (proven.code, ", 9 contract versions, 1 batch" in proven.err) == (0, True)
    assert forge(repository, "new", "Shop").out == "shop-2\n"
    assert not list((repository / ".aop/forge/runs").iterdir())


def test_nothing_is_deleted_without_a_person_who_says_so(repository: Path) -> None:
    forge(repository, "new", "Shop")
    assert forge(repository, "delete", "shop") == Ran(
        2,
        "",
        "aop: There is no terminal to ask on. [invalid_cli_args]\n  Pass `--yes` to delete it without a question.\n",
    )
    planned = forge(repository, "delete", "shop", "--json")
    assert (planned.code, planned.json["data"]["deleted"]) == (3, False)
    agent = run_aop(repository, "call", "forge.project_delete", '{"project_id": "shop"}', "--role", "planner")
    assert agent.json["error"]["code"] == "forbidden_tool_for_role"
    assert forge(repository, "delete", "shop", "--yes").err == "Deleted shop. Its history: aop logs\n"


def test_a_project_that_a_build_pins_stays_until_its_builds_are_abandoned(repository: Path) -> None:
    forge(repository, "new", "Shop")
    world = World(repository)
    stored(world, "shop")
    world.close()
    build = forge(repository, "pin", "shop").out.strip()
    token = run_aop(repository, "token", "coder", "--build", build).out.strip()
    assert forge(repository, "delete", "shop", "--yes") == Ran(
        4,
        "",
        "aop: The contracts of `shop` are pinned by: shop-b1. [project_pinned]\n"
        "  End the work of these builds, then delete them too: `aop forge delete shop --abandon-builds`.\n",
    )
    assert forge(repository, "export", "shop", str(repository.parent / "kept"), "--build", build).code == 0
    assert forge(repository, "delete", "shop", "--yes", "--abandon-builds").code == 0
    assert run_aop(repository, "mcp", "--build", build, "--json", env={"AOP_TOKEN": token}).code == 1
    assert run_aop(repository, "evidence", "verify").code == 0


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            'UPDATE documents SET body = replace(body, \'"deleted_at":"2\', \'"deleted_by":"2\')'
            " WHERE kind = 'forge_project'",
            "The project `shop` is deleted in the record or in the journal, and not in both.",
        ),
        (
            'INSERT INTO documents SELECT \'contract\', \'shop/ui/000001\', 1, \'{"version":1,"project_id":"shop",'
            '"contract_type":"ui","number":1,"content":"","sha256":"0","author":"a","created_at":"0"}\'',
            "The journal has no entry for the contract `shop/ui/000001`.",
        ),
    ],
    ids=["not deleted", "a contract is back"],
)
def test_a_deletion_that_the_record_takes_back_is_found(repository: Path, sql: str, said: str) -> None:
    forge(repository, "new", "Shop")
    assert forge(repository, "delete", "shop", "--yes").code == 0
    with sqlite3.connect(repository / ".aop/record.db") as connection:
        assert connection.execute(sql).rowcount == 1
    connection.close()
    ran = run_aop(repository, "evidence", "verify")
    assert (ran.code, said in ran.err) == (4, True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Shop\u202egnihtyna", "Shop\\u{202e}gnihtyna"),
        ("Shop \x1b[31mred\x1b[0m", "Shop \\u{1b}[31mred\\u{1b}[0m"),
        ("Shop\n\nOK: all gates pass", "Shop OK: all gates pass"),
        ("Sh\u0456p", "Sh\\u{456}p"),
    ],
    ids=["bidirectional", "terminal sequence", "line ends", "imitating letter"],
)
def test_a_name_cannot_steer_or_deceive_the_terminal(repository: Path, name: str, shown: str) -> None:
    assert forge(repository, "new", name).code == 0
    assert forge(repository, "list").out.splitlines()[1].endswith(shown)
    (project,) = forge(repository, "list", "--json").json["data"]["projects"]
    assert forge(repository, "show", project["project_id"]).out.startswith(f"{project['project_id']}: {shown}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: ACTION"),
        (("nwe", "Shop"), "there is no `nwe`; choose from new, "),
        (("new",), "the following arguments are required: NAME"),
        (("show", "--mini", "shop"), "unrecognized arguments: --mini"),
    ],
)
def test_words_that_mean_nothing_are_a_usage_error(repository: Path, words: tuple[str, ...], said: str) -> None:
    ran = forge(repository, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_help_of_an_action_has_its_own_arguments_and_examples(repository: Path) -> None:
    ran = forge(repository, "new", "--help")
    assert ran.code == 0
    assert ran.out.startswith("usage: aop forge [-h] [--json] [--repo PATH] [--mini] new NAME\n")
    assert "Begin a project, for an idea or for a repository." in ran.out
    assert ran.out.endswith("examples:\n  aop forge new Shop\n")


def test_the_help_lists_every_action_in_groups(repository: Path) -> None:
    lines = forge(repository, "--help").out.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "positional arguments:",
        "options:",
        "a project and its answers:",
        "a repository:",
        "contracts:",
        "builds and agents:",
        "a build at work:",
    ]
    listed = [line.split()[0] for line in lines[lines.index(titles[2]) :] if line.startswith("  ")]
    assert listed == list(ACTIONS)
    assert f"  {'scan':<11}read a commit of this repository: its structure, its dependencies, its health" in lines


def test_an_option_may_stand_before_the_action(repository: Path, tmp_path: Path) -> None:
    assert run_aop(tmp_path, "forge", "--repo", str(repository), "new", "Shop").out == "shop\n"
