"""`aop forge` as real processes: projects are begun, listed and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forge.projects import stored
from tests.world import Ran, World, make_repository, run_aop


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
        "  Correct the id (`aop forge list` lists yours), or begin a project with `aop forge new NAME`.\n"
    )


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


def test_an_option_may_stand_before_the_action(repository: Path, tmp_path: Path) -> None:
    assert run_aop(tmp_path, "forge", "--repo", str(repository), "new", "Shop").out == "shop\n"
