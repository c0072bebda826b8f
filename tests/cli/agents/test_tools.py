"""`aop tools`: the list, the written files, and the report of files that are out of date."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aop.wiring.catalogue import CATALOGUE
from tests.world import FILES, git, make_repository, run_aop

ROOT = Path(__file__).parents[3]
FOLDER = "agentic/orchestrator"
CATALOG = f"{FOLDER}/tools/catalog.json"


def written(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("AOP-034", "AOP-035", "AOP-036", "AOP-065", "AOP-329")
def test_the_files_of_this_repository_are_what_the_code_says() -> None:
    """If not: `make tools`, and commit what it changed."""
    ran = run_aop(ROOT, "tools", "check", "--docs", "--json")
    assert (ran.code, ran.json["data"]) == (0, {"drifted": []})


@pytest.mark.req("AOP-034", "AOP-035", "AOP-036", "AOP-063")
def test_writing_twice_changes_nothing_more_and_the_check_agrees(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    first = run_aop(root, "tools", "write", "--json").json["data"]["written"]
    names = {f"{name}.schema.json" for name in CATALOGUE}
    for side in ("input", "output"):
        assert set(os.listdir(root / FOLDER / "tools/schemas" / side)) == names
    documents = "agents evidence gates index output plan policy qa_test_index state".split()
    assert sorted(os.listdir(root / FOLDER / "schemas")) == [f"{name}.schema.json" for name in documents]
    assert len(first) == len(documents) + 2 * len(names) + len(["tools.md", "catalog", "protocol", "errors"])
    assert run_aop(root, "tools", "write", "--json").json["data"] == {"written": []}
    assert run_aop(root, "tools", "check").code == 0


def test_a_linked_worktree_gets_files_of_its_own(tmp_path: Path) -> None:
    root, linked = make_repository(tmp_path / "repo"), tmp_path / "linked"
    git(root, "worktree", "add", "-q", str(linked))
    assert run_aop(linked, "tools", "write").code == 0
    assert ((linked / CATALOG).is_file(), (root / CATALOG).exists()) == (True, False)
    assert [run_aop(each, "tools", "check").code for each in (linked, root)] == [0, 1]


@pytest.mark.req("AOP-065")
def test_every_file_that_drifted_is_named_and_writing_repairs_it(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    run_aop(root, "tools", "write")
    before = written(root / FOLDER)
    (root / CATALOG).write_text("{}\n")
    (root / FOLDER / "tools.md").unlink()
    left_over = f"{FOLDER}/tools/schemas/input/feature.gone.schema.json"
    (root / left_over).write_text("{}\n")
    (root / FOLDER / "tools/README.md").write_text("Ours.\n")
    ran = run_aop(root, "tools", "check", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "contract_drift")
    assert ran.json["error"]["details"]["drifted"] == [
        {"path": f"{FOLDER}/tools.md", "how": "missing"},
        {"path": CATALOG, "how": "different"},
        {"path": left_over, "how": "left over"},
    ]
    assert f"different: {CATALOG}\n" in ran.err
    assert "`aop tools write`" in run_aop(root, "tools", "check").err
    run_aop(root, "tools", "write")
    assert written(root / FOLDER) == {**before, "tools/README.md": b"Ours.\n"}


def test_the_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        run_aop(tmp_path, "tools", "write", "--to", seed, env={"PYTHONHASHSEED": seed})
    assert written(tmp_path / "1") == written(tmp_path / "2")
    assert len(written(tmp_path / "1")) > len(CATALOGUE)


def test_another_folder_is_written_and_checked_without_a_repository(tmp_path: Path) -> None:
    assert run_aop(tmp_path, "tools", "write", "--to", "out").code == 0
    assert run_aop(tmp_path, "tools", "check", "--to", "out").code == 0
    assert run_aop(tmp_path, "tools", "check", "--json").json["error"]["code"] == "not_a_repository"


def test_a_link_that_leads_out_of_the_repository_is_not_written_through(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (tmp_path / "elsewhere").mkdir()
    (root / FOLDER / "tools").symlink_to(tmp_path / "elsewhere")
    ran = run_aop(root, "tools", "write", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "path_out_of_bounds")
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.req("AOP-060", "AOP-063")
def test_the_catalog_says_of_every_tool_what_the_code_says(tmp_path: Path) -> None:
    run_aop(tmp_path, "tools", "write", "--to", "out")
    catalog = json.loads((tmp_path / "out/tools/catalog.json").read_bytes())
    rows = {row["name"]: row for row in catalog["tools"]}
    assert rows.keys() == CATALOGUE.keys()
    for name, tool in CATALOGUE.items():
        said = (tool.summary, sorted(tool.roles), tool.mutates, tool.person_only)
        assert tuple(rows[name][key] for key in ("summary", "roles", "mutates", "person_only")) == said
        for side in ("input", "output"):
            assert (tmp_path / "out/tools" / rows[name][f"{side}_schema"]).is_file()


@pytest.mark.req("AOP-329")
def test_the_reference_has_a_section_for_every_tool_with_all_that_it_takes(tmp_path: Path) -> None:
    run_aop(tmp_path, "tools", "write", "--to", "out")
    sections = (tmp_path / "out/tools.md").read_text().split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == sorted(CATALOGUE)
    patch = next(section for section in sections if section.startswith("repo.apply_patch\n"))
    assert "It changes something. Roles: builder, qa, system." in patch
    assert "| `unified_diff` | string | The patch, as `git diff` writes it" in patch
    approve = next(section for section in sections if section.startswith("feature.approve\n"))
    assert "Only a person, and never with a token." in approve


def test_the_list_needs_no_repository(tmp_path: Path) -> None:
    bare, listed = run_aop(tmp_path, "tools"), run_aop(tmp_path, "tools", "list")
    assert (bare.code, bare.out) == (0, listed.out)
    assert [line.split()[0] for line in listed.out.splitlines()] == sorted(CATALOGUE)


@pytest.mark.req("AOP-155")
def test_the_list_of_a_role_is_what_its_token_opens_under_the_policy_of_this_repository(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "wide")
    listed = run_aop(root, "tools", "list", "--role", "builder", "--json").json["data"]["tools"]
    builder = {row["name"] for row in listed}
    assert {"repo.apply_patch", "gates.run"} <= builder
    assert builder.isdisjoint({"feature.ready_to_merge", "feature.approve", "feature.init", "plan.submit"})
    policy = "version: 1\nrbac: {builder: [repo.status]}\n"
    narrow = make_repository(tmp_path / "narrow", {**FILES, f"{FOLDER}/policy.yaml": policy})
    assert run_aop(narrow, "tools", "--role", "builder").out.split()[0] == "repo.status"
    assert len(run_aop(narrow, "tools", "--role", "builder").out.splitlines()) == 1
