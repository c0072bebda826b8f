"""`aop init`: what it guesses, what it writes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aop.adapters.projects.starter import place_new_file
from aop.core.errors import PathOutOfBounds
from aop.core.roles import Role
from tests.project_python import project_programs
from tests.world import World, git, make_repository, plan_for, run_aop

FOLDER = "agentic/orchestrator"
NAMES = [f"{FOLDER}/{name}.yaml" for name in ("policy", "gates", "agents")]
CONTRACTS = [f"{FOLDER}/{name}" for name in ("schemas", "tools", "tools.md")]
PYTEST = ["python3", "-m", "pytest", "-q"]
REPORTING = [*PYTEST, "--junitxml=junit.xml"]
WHY = "test: `pyproject.toml` mentions pytest"


def python_repository(root: Path, **more: str) -> Path:
    return make_repository(root, {"pyproject.toml": 'dev = ["pytest"]\n', **more})


def test_the_files_are_shown_written_and_in_force(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    ran = run_aop(root, "init", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert {path: (root / path).read_text() for path in NAMES} == {
        NAMES[0]: (
            "# Only what differs from AOP's defaults; docs/configuration.md lists every key.\n"
            "version: 1\nworktree:\n  base_branch: main\n"
        ),
        NAMES[1]: (
            "# The commands that test a feature; docs/configuration.md lists every key.\n"
            "version: 1\nprofiles:\n  default:\n    modes:\n"
            '      fast:\n        - name: test\n          cmd: ["python3", "-m", "pytest", "-q"]\n'
            f"      full:\n        - name: test\n          cmd: {json.dumps(REPORTING)}\n"
            f"      merge:\n        - name: test\n          cmd: {json.dumps(REPORTING)}\n"
            '    parsers:\n      tests: {type: junit_xml, path: "junit.xml", modes: [full, merge]}\n'
        ),
        NAMES[2]: ("# The agent and the prompt of each role; docs/configuration.md lists every key.\nversion: 1\n"),
    }
    assert f"Base branch  main (it is checked out here)\nLanguage     Python\nGuessed      {WHY}\n" in ran.err
    for path in NAMES:
        assert f"\n{path}\n" in ran.err
    for line in (root / NAMES[1]).read_text().splitlines():
        assert f"    {line}\n" in ran.err
    assert f'git add -- {" ".join([*NAMES, *CONTRACTS])} && git commit -m "Let AOP manage this repository"' in ran.err
    world = World(root)
    listed = world.ok("gates.list")
    world.close()
    assert listed["sources"] == {
        name: f"checkout:{path}" for name, path in zip(("policy", "gates", "agents"), NAMES, strict=True)
    }


def untouched(root: Path) -> list[bytes]:
    places = [root / ".git" / name for name in ("HEAD", "config", "index", "info/exclude")]
    return [git(root, "for-each-ref").encode(), *(place.read_bytes() for place in places)]


@pytest.mark.req("AOP-032", "AOP-034", "AOP-035", "AOP-036")
def test_nothing_but_the_three_files_and_the_contracts_is_touched(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    before = untouched(root)
    run_aop(root, "init", "--yes")
    run_aop(tmp_path, "tools", "write", "--to", "contracts")
    contracts = [path for path in (tmp_path / "contracts").rglob("*") if path.is_file()]
    expected = [*NAMES, *(f"{FOLDER}/{path.relative_to(tmp_path / 'contracts').as_posix()}" for path in contracts)]
    assert git(root, "status", "--porcelain", "-uall") == "".join(f"?? {path}\n" for path in sorted(expected))
    assert untouched(root) == before
    assert not (root / ".aop").exists()


def test_the_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    first = run_aop(root, "init", "--yes", "--json").json["data"]
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Configure")
    second = run_aop(root, "init", "--json")
    nothing_new = {"written": [], "existing": NAMES, "language": None, "reasons": [], "warnings": []}
    assert (second.code, second.json["data"]) == (0, {**first, **nothing_new})
    assert "Nothing was written" in second.err


def test_json_tells_what_was_written_and_what_was_guessed(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    fast, full = {"name": "test", "cmd": PYTEST}, {"name": "test", "cmd": REPORTING}
    assert run_aop(root, "init", "--yes", "--json").json["data"] == {
        "written": [*NAMES, *CONTRACTS],
        "existing": [],
        "base_branch": "main",
        "language": "Python",
        "reasons": [WHY],
        "gates": {"default": {"fast": [fast], "full": [full], "merge": [full]}},
        "warnings": [
            "The gates run the first `python3` on PATH: activate this project's virtual environment before you start"
            " `aop`."
        ],
    }


def test_an_existing_file_is_kept_and_the_others_are_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    (root / FOLDER).mkdir(parents=True)
    (root / NAMES[0]).write_text("version: 1\nsupervisor: {max_active_features: 2}\n")
    report = run_aop(root, "init", "--yes", "--json").json["data"]
    assert (report["existing"], report["written"]) == (NAMES[:1], [*NAMES[1:], *CONTRACTS])
    assert (root / NAMES[0]).read_text() == "version: 1\nsupervisor: {max_active_features: 2}\n"


def test_a_contract_that_is_there_is_left_to_aop_tools(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{f"{FOLDER}/tools.md": "An older one.\n"})
    assert run_aop(root, "init", "--yes", "--json").json["data"]["written"] == [*NAMES, *CONTRACTS[:2]]
    assert (root / FOLDER / "tools.md").read_text() == "An older one.\n"
    assert run_aop(root, "tools", "check").code == 1


def test_a_file_that_only_the_base_branch_has_counts_as_existing(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{NAMES[1]: "version: 1\n"})
    git(root, "checkout", "-q", "-b", "elsewhere")
    git(root, "rm", "-q", NAMES[1])
    git(root, "commit", "-qm", "Away with it")
    report = run_aop(root, "init", "--yes", "--json").json["data"]
    assert (report["existing"], report["base_branch"]) == ([NAMES[1]], "main")


def test_an_existing_file_that_is_wrong_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    (root / FOLDER).mkdir(parents=True)
    (root / NAMES[1]).write_text("version: 1\nprofile: {}\n")
    ran = run_aop(root, "init", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "invalid_configuration")
    assert os.listdir(root / FOLDER) == ["gates.yaml"]


def test_a_repository_of_no_known_language_gets_gates_that_cannot_pass_and_is_told(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"notes.txt": "one\n", "src/a.txt": "one\n"})
    ran = run_aop(root, "init", "--yes", "--json")
    assert ran.json["data"]["gates"] == {"default": {"fast": [], "full": [], "merge": []}}
    assert "the gates have no steps and cannot pass" in ran.err
    world = World(root)
    world.plan("one")
    assert world.refusal("gates.run", feature_id="one", mode="fast")["code"] == "no_gate_steps"
    world.close()


WEB = {"web/package.json": '{"scripts": {"test": "mocha"}, "devDependencies": {"mocha": "10"}}', "web/bun.lock": ""}


def test_several_projects_get_a_profile_each_and_it_is_said_what_default_proves(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB)
    ran = run_aop(root, "init", "--yes", "--json")
    report = ran.json["data"]
    assert (report["language"], list(report["gates"])) == ("Python, Node in `web`", ["default", "python", "web"])
    assert report["gates"]["web"]["merge"] == [
        {"name": "install", "cmd": ["bun", "install", "--frozen-lockfile"], "cwd": "web"},
        {"name": "test", "cmd": ["bun", "run", "test"], "cwd": "web"},
    ]
    assert report["reasons"] == [
        "python: test: `pyproject.toml` mentions pytest",
        "web: install: a new worktree has no `node_modules`; `bun.lock` lists the packages",
        "web: test: `package.json` has the script `test`",
    ]
    assert "each with a gate profile: `python`, `web`. `default` covers only the main one, Python:" in ran.err


def test_what_the_gates_need_of_this_machine_is_opened_in_the_policy_and_said(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB)
    ran = run_aop(root, "init", "--yes")
    opened = 'execution:\n  sandbox_read:\n    - "~/.bun/install/cache"\n'
    assert (root / NAMES[0]).read_text().endswith(opened)
    assert "`execution.sandbox_read: [~/.bun/install/cache]` lets them read these." in ran.err


def test_a_policy_that_is_there_is_left_to_the_person_to_open(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB, **{NAMES[0]: "version: 1\n"})
    ran = run_aop(root, "init", "--yes")
    assert (root / NAMES[0]).read_text() == "version: 1\n"
    assert "policy.yaml already exists and was not changed: add the lines" in ran.err


def test_a_folder_of_the_repository_is_as_good_as_its_root(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{"src/a.txt": "one\n"})
    ran = run_aop(tmp_path, "init", "--yes", "--repo", str(root / "src"))
    assert ran.code == 0
    assert f"in {root}:\n  git add --" in ran.err
    assert (root / NAMES[0]).is_file()


def base_branch(root: Path) -> str:
    name: str = run_aop(root, "init", "--yes", "--json").json["data"]["base_branch"]
    return name


def test_the_branch_of_the_checkout_is_the_base_if_it_is_master_or_main(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "branch", "master")
    assert base_branch(root) == "main"
    (root / NAMES[0]).unlink()
    git(root, "checkout", "-q", "master")
    assert base_branch(root) == "master"


def test_from_another_branch_main_is_the_base_and_the_files_belong_there(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "checkout", "-q", "-b", "work")
    ran = run_aop(root, "init", "--yes", "--json")
    assert ran.json["data"]["base_branch"] == "main"
    assert "Commit the files on `main`" in ran.err


def test_without_main_and_master_the_branch_of_the_checkout_is_the_base(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "branch", "-m", "trunk")
    assert base_branch(root) == "trunk"
    assert "  base_branch: trunk\n" in (root / NAMES[0]).read_text()


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    ran = run_aop(tmp_path, "init", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "base_branch_unusable")
    assert ran.json["error"]["message"] == ("The branch `main` has no commit yet, so no feature can start from it.")
    assert os.listdir(tmp_path) == [".git"]


def test_a_checkout_on_no_branch_without_a_usual_one_is_refused(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "checkout", "-q", "--detach")
    git(root, "branch", "-m", "main", "trunk")
    ran = run_aop(root, "init", "--yes", "--json")
    assert ran.json["error"]["code"] == "base_branch_unusable"


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "init", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "not_a_repository")


def init_at_a_terminal(root: Path, answer: str) -> int:
    """Run `aop init` where a person sits, and let them answer."""
    person, terminal = os.openpty()
    with open(person, "wb", buffering=0) as keyboard, open(terminal, "rb", buffering=0) as stdin:
        keyboard.write(f"{answer}\n".encode())
        command = [sys.executable, "-m", "aop.cli.main", "init"]
        return subprocess.run(command, cwd=root, stdin=stdin, capture_output=True, check=False, timeout=300).returncode


@pytest.mark.parametrize(("answer", "code", "there"), [("y", 0, True), ("n", 3, False), ("", 3, False)])
def test_a_person_decides(tmp_path: Path, answer: str, code: int, *, there: bool) -> None:
    root = python_repository(tmp_path / "repo")
    assert init_at_a_terminal(root, answer) == code
    assert [(root / path).exists() for path in NAMES] == [there] * 3


def test_where_nobody_can_be_asked_nothing_is_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    ran = run_aop(root, "init", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "invalid_cli_args")
    assert not (root / "agentic").exists()


def test_a_file_that_came_in_between_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("mine\n")
    assert not place_new_file(tmp_path, "a.yaml", "theirs\n")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.yaml": "mine\n"}


def test_a_link_that_leads_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "repo", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "agentic").symlink_to(outside)
    with pytest.raises(PathOutOfBounds):
        place_new_file(root, NAMES[0], "version: 1\n")
    assert os.listdir(outside) == []


@pytest.mark.slow
def test_the_guessed_gates_run_pytest_and_their_coverage_is_read(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "repo",
        {
            "pyproject.toml": '[project]\nname = "shop"\n\n[dependency-groups]\ndev = ["pytest", "pytest-cov"]\n',
            "src/shop/__init__.py": "",
            "src/shop/cart.py": "def total(prices):\n    if not prices:\n        return 0\n    return sum(prices)\n",
            "tests/test_cart.py": (
                "from shop.cart import total\n\n\ndef test_total():\n    assert (total([1, 2]), total([])) == (3, 0)\n"
            ),
        },
    )
    path = os.pathsep.join([project_programs(), os.environ["PATH"]])
    assert run_aop(root, "init", "--yes").code == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Configure")
    plan = plan_for("one", files={"create": [], "modify": ["src/shop/cart.py"], "delete": []})
    run_aop(root, "call", "feature.init", '{"feature_id": "one"}')
    world = World(root)
    world.ok("plan.submit", role=Role.PLANNER, feature_id="one", plan_json=plan)
    world.close()
    run_aop(root, "call", "gates.run", '{"feature_id": "one", "mode": "fast"}', env={"PATH": path})
    ran = run_aop(root, "call", "gates.run", '{"feature_id": "one", "mode": "full"}', env={"PATH": path})
    assert ran.code == 0, ran.out
    assert {name: figures["verdict"] for name, figures in ran.json["data"]["coverage"].items()} == {
        "line": "pass",
        "branch": "pass",
    }
