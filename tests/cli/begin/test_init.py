"""`aop init`: what it guesses, what it writes, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.projects.placement import place_new_files
from aop.core.errors import Fault, PathOutOfBounds
from aop.core.roles import Role
from aop.core.text.yaml import parse_yaml
from tests.project_python import project_programs
from tests.world import Ran, World, git, make_repository, plan_for, run_aop

FOLDER = "agentic/orchestrator"
NAMES = [f"{FOLDER}/{name}.yaml" for name in ("policy", "gates", "agents")]
PYTEST = ["python3", "-m", "pytest", "-q"]
REPORTING = [*PYTEST, "--junitxml=junit.xml"]
WHY = "test: `pyproject.toml` mentions pytest"


def python_repository(root: Path, **more: str) -> Path:
    return make_repository(root, {"pyproject.toml": 'dev = ["pytest"]\n', **more})


def data_of(ran: Ran) -> Any:
    return ran.json["data"]


def test_the_files_are_shown_written_and_in_force(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    ran = run_aop(root, "init", "--yes", "--no-run")
    assert (ran.code, ran.out) == (0, "")
    texts = {path: (root / path).read_text() for path in NAMES}
    assert {path: parse_yaml(text.encode()).value for path, text in texts.items()} == {
        NAMES[0]: {"version": 1, "worktree": {"base_branch": "main"}},
        NAMES[1]: {
            "version": 1,
            "profiles": {
                "default": {
                    "modes": {
                        "fast": [{"name": "test", "cmd": PYTEST}],
                        "full": [{"name": "test", "cmd": REPORTING}],
                        "merge": [{"name": "test", "cmd": REPORTING}],
                    },
                    "parsers": {"tests": {"type": "junit_xml", "path": "junit.xml", "modes": ["full", "merge"]}},
                }
            },
        },
        NAMES[2]: {"version": 1},
    }
    assert sum(text.count("\n") for text in texts.values()) < 50
    assert all("`aop config" in text and "docs/" not in text for text in texts.values())
    assert "        # `pyproject.toml` mentions pytest\n        - name: test\n" in texts[NAMES[1]]
    assert f"Base branch  main (it is checked out here)\nLanguage     Python\nGuessed      {WHY}\n" in ran.err
    for path in NAMES:
        assert f"\n{path}\n" in ran.err
    for line in (root / NAMES[1]).read_text().splitlines():
        assert f"    {line}\n" in ran.err
    assert f'git add -- {" ".join(NAMES)} && git commit -m "Let AOP manage this repository"' in ran.err
    world = World(root)
    listed = world.ok("gates.list")
    world.close()
    assert listed["sources"] == {
        name: f"checkout:{path}" for name, path in zip(("policy", "gates", "agents"), NAMES, strict=True)
    }


def untouched(root: Path) -> list[bytes]:
    places = [root / ".git" / name for name in ("HEAD", "config", "index")]
    return [git(root, "for-each-ref").encode(), *(place.read_bytes() for place in places)]


@pytest.mark.req("AOP-032", "AOP-034", "AOP-035", "AOP-036")
def test_nothing_but_the_three_files_is_touched(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    before = untouched(root)
    run_aop(root, "init", "--yes", "--no-run")
    assert git(root, "status", "--porcelain", "-uall") == "".join(f"?? {path}\n" for path in sorted(NAMES))
    assert untouched(root) == before


def test_the_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    first = data_of(run_aop(root, "init", "--yes", "--no-run", "--json"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Configure")
    second = run_aop(root, "init", "--no-run", "--json")
    nothing_new = {"files": [], "existing": NAMES, "language": None, "reasons": [], "gates": [], "warnings": []}
    assert (second.code, data_of(second)) == (0, {**first, **nothing_new})
    assert "Nothing was written" in second.err


def test_json_tells_what_was_written_and_what_was_guessed(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    commands = {"fast": PYTEST, "full": REPORTING, "merge": REPORTING}
    assert data_of(run_aop(root, "init", "--yes", "--no-run", "--json")) == {
        "files": NAMES,
        "existing": [],
        "base_branch": "main",
        "language": "Python",
        "reasons": [WHY],
        "gates": [
            {
                "profile": "default",
                "mode": mode,
                "command": " ".join(words),
                "result": "not_run",
                "cause": "",
                "cure": "",
            }
            for mode, words in commands.items()
        ],
        "left_out": [],
        "commit": None,
        "warnings": [
            "The gates run the first `python3` on PATH: activate this project's virtual environment before you start"
            " `aop`."
        ],
    }


def test_an_existing_file_is_kept_and_the_others_are_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    (root / FOLDER).mkdir(parents=True)
    (root / NAMES[0]).write_text("version: 1\nsupervisor: {max_active_features: 2}\n")
    report = data_of(run_aop(root, "init", "--yes", "--no-run", "--json"))
    assert (report["existing"], report["files"]) == (NAMES[:1], NAMES[1:])
    assert (root / NAMES[0]).read_text() == "version: 1\nsupervisor: {max_active_features: 2}\n"


def test_a_file_that_only_the_base_branch_has_counts_as_existing(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{NAMES[1]: "version: 1\n"})
    git(root, "checkout", "-q", "-b", "elsewhere")
    git(root, "rm", "-q", NAMES[1])
    git(root, "commit", "-qm", "Away with it")
    report = data_of(run_aop(root, "init", "--yes", "--no-run", "--json"))
    assert (report["existing"], report["base_branch"]) == ([NAMES[1]], "main")


def test_an_existing_file_that_is_wrong_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    (root / FOLDER).mkdir(parents=True)
    (root / NAMES[1]).write_text("version: 1\nprofile: {}\n")
    ran = run_aop(root, "init", "--yes", "--no-run", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "invalid_configuration")
    assert os.listdir(root / FOLDER) == ["gates.yaml"]


def test_a_repository_of_no_known_language_gets_gates_that_cannot_pass_and_is_told(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"notes.txt": "one\n", "src/a.txt": "one\n"})
    ran = run_aop(root, "init", "--yes", "--no-run", "--json")
    assert data_of(ran)["gates"] == []
    assert "    modes:\n      fast: []\n      full: []\n      merge: []\n" in (root / NAMES[1]).read_text()
    assert "the gates have no steps and cannot pass" in ran.err
    world = World(root)
    world.plan("one")
    assert world.refusal("gates.run", feature_id="one", mode="fast")["code"] == "no_gate_steps"
    world.close()


WEB = {"web/package.json": '{"scripts": {"test": "mocha"}, "devDependencies": {"mocha": "10"}}', "web/bun.lock": ""}


def test_several_projects_get_a_profile_each_and_it_is_said_what_default_proves(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB)
    ran = run_aop(root, "init", "--yes", "--no-run", "--json")
    report = data_of(ran)
    assert report["language"] == "Python, Node in `web`"
    assert [(one["profile"], one["mode"]) for one in report["gates"]] == [
        (profile, mode) for profile in ("default", "python", "web") for mode in ("fast", "full", "merge")
    ]
    assert report["gates"][-1]["command"] == "bun install --frozen-lockfile && bun run test"
    assert report["reasons"] == [
        "python: test: `pyproject.toml` mentions pytest",
        "web: install: a new worktree has no `node_modules`; `bun.lock` lists the packages",
        "web: test: `package.json` has the script `test`",
    ]
    assert "each with a gate profile: `python`, `web`. `default` covers only the main one, Python:" in ran.err


def test_what_the_gates_need_of_this_machine_is_opened_in_the_policy_and_said(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB)
    ran = run_aop(root, "init", "--yes", "--no-run")
    opened = 'sandbox_read: ["~/.bun/install/cache"]\n'
    assert (root / NAMES[0]).read_text().endswith(opened)
    assert "`execution.sandbox_read: [~/.bun/install/cache]` lets them read these." in ran.err


def test_a_policy_that_is_there_is_left_to_the_person_to_open(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **WEB, **{NAMES[0]: "version: 1\n"})
    ran = run_aop(root, "init", "--yes", "--no-run")
    assert (root / NAMES[0]).read_text() == "version: 1\n"
    assert "policy.yaml already exists and was not changed: add the lines" in ran.err


def test_a_folder_of_the_repository_is_as_good_as_its_root(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{"src/a.txt": "one\n"})
    ran = run_aop(tmp_path, "init", "--yes", "--no-run", "--repo", str(root / "src"))
    assert ran.code == 0
    assert f"in {root}:\n  git add --" in ran.err
    assert (root / NAMES[0]).is_file()


def base_branch(root: Path) -> str:
    name: str = data_of(run_aop(root, "init", "--yes", "--no-run", "--json"))["base_branch"]
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
    ran = run_aop(root, "init", "--yes", "--no-run", "--json")
    assert data_of(ran)["base_branch"] == "main"
    assert "Commit the files on `main`" in ran.err


def test_without_main_and_master_the_branch_of_the_checkout_is_the_base(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "branch", "-m", "trunk")
    assert base_branch(root) == "trunk"
    assert "  base_branch: trunk\n" in (root / NAMES[0]).read_text()


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    ran = run_aop(tmp_path, "init", "--yes", "--no-run", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "base_branch_unusable")
    assert ran.json["error"]["message"] == ("The branch `main` has no commit yet, so no feature can start from it.")
    assert os.listdir(tmp_path) == [".git"]


def test_a_checkout_on_no_branch_without_a_usual_one_is_refused(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "checkout", "-q", "--detach")
    git(root, "branch", "-m", "main", "trunk")
    ran = run_aop(root, "init", "--yes", "--no-run", "--json")
    assert ran.json["error"]["code"] == "base_branch_unusable"


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "init", "--yes", "--no-run", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "not_a_repository")


def init_at_a_terminal(root: Path, answer: str) -> int:
    """Run `aop init` where a person sits, and let them answer."""
    person, terminal = os.openpty()
    with open(person, "wb", buffering=0) as keyboard, open(terminal, "rb", buffering=0) as stdin:
        keyboard.write(answer.encode())
        command = [sys.executable, "-m", "aop.cli.main", "init", "--no-run"]
        return subprocess.run(command, cwd=root, stdin=stdin, capture_output=True, check=False, timeout=300).returncode


@pytest.mark.parametrize(("answer", "code", "there"), [("y\nn\n", 0, True), ("n\n", 3, False), ("\n", 3, False)])
def test_a_person_decides(tmp_path: Path, answer: str, code: int, *, there: bool) -> None:
    root = python_repository(tmp_path / "repo")
    assert init_at_a_terminal(root, answer) == code
    assert [(root / path).exists() for path in NAMES] == [there] * 3


def test_where_nobody_can_be_asked_nothing_is_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    ran = run_aop(root, "init", "--no-run", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "invalid_cli_args")
    assert not (root / "agentic").exists()


def test_a_file_that_came_in_between_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").write_text("mine\n")
    assert place_new_files(tmp_path, "a", {"one": "theirs\n", "two": "new\n"}) == ("a/two",)
    assert {path.name: path.read_text() for path in (tmp_path / "a").iterdir()} == {"one": "mine\n", "two": "new\n"}


def test_files_that_cannot_all_be_written_are_not_written_at_all(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(Fault, match="No file was written"):
        place_new_files(tmp_path, "a", {"one": "1\n", "x" * 300: "2\n"})
    assert os.listdir(tmp_path / "a") == []
    assert os.listdir(tmp_path / ".aop/tmp") == []


def test_a_link_that_leads_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "repo", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "agentic").symlink_to(outside)
    with pytest.raises(PathOutOfBounds):
        place_new_files(root, FOLDER, {"policy.yaml": "version: 1\n"})
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
    assert run_aop(root, "init", "--yes", env={"PATH": path}).code == 0
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
