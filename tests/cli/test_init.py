"""`aop init`: what it guesses, what it writes, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.projects.python import guess
from aop.adapters.projects.starter import gates_text, place_new_file
from aop.adapters.projects.view import Project
from aop.core.errors import PathOutOfBounds
from aop.core.roles import Role
from aop.core.yamltext import parse_yaml
from tests.world import World, git, make_repository, plan_for, run_aop

FOLDER = "agentic/orchestrator"
NAMES = [f"{FOLDER}/{name}.yaml" for name in ("policy", "gates", "agents")]
PYTEST = ["python3", "-m", "pytest", "-q"]
COVERAGE = ["--cov", "--cov-branch", "--cov-report=xml:coverage.xml"]
DISCOVER = ["python3", "-m", "unittest", "discover"]
UNITTEST = "import unittest\n\n\nclass ATest(unittest.TestCase):\n    def test_a(self) -> None:\n        pass\n"


# --- guessing, without a repository ----------------------------------------------------------------


def guessed(files: Mapping[str, str]) -> Any:
    """Return the `default` profile of the gates.yaml that is written for a project with these files."""
    found = guess(Project(paths=frozenset(files), texts=files))
    if found is None:
        return None
    gates: Any = parse_yaml(gates_text(found.profile).encode()).value
    return gates["profiles"]["default"]


TESTS = {
    "pytest in pyproject.toml": ({"pyproject.toml": 'dev = ["pytest"]'}, [PYTEST]),
    "pytest in requirements": ({"requirements-dev.txt": "pytest==8\n"}, [PYTEST]),
    "pytest in a folder of requirements": ({"requirements/dev.txt": "pytest\n"}, [PYTEST]),
    "pytest in setup.cfg": ({"setup.cfg": "[options.extras_require]\ntest = pytest\n"}, [PYTEST]),
    "pytest in tox.ini": ({"setup.py": "", "tox.ini": "[testenv]\ncommands = pytest\n"}, [PYTEST]),
    "a conftest": ({"pyproject.toml": "", "tests/conftest.py": ""}, [PYTEST]),
    "a test that imports pytest": ({"tests/test_a.py": "import pytest\n"}, [PYTEST]),
    "uv": ({"uv.lock": "", "pyproject.toml": "pytest"}, [["uv", "run", *PYTEST]]),
    "poetry": ({"poetry.lock": "", "pyproject.toml": "pytest"}, [["poetry", "run", *PYTEST]]),
    "coverage": ({"pyproject.toml": 'dev = ["pytest", "pytest-cov"]'}, [[*PYTEST, *COVERAGE]]),
    "unittest in a package": ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, [DISCOVER]),
    "unittest at the root": ({"test_a.py": UNITTEST}, [DISCOVER]),
    "unittest in a folder that is no package": ({"tests/test_a.py": UNITTEST}, [[*DISCOVER, "-s", "tests"]]),
    "unittest in two such folders": (
        {"a/tests/test_a.py": UNITTEST, "b/tests/test_b.py": UNITTEST},
        [[*DISCOVER, "-s", "a/tests"], [*DISCOVER, "-s", "b/tests"]],
    ),
    "no tests": ({"pyproject.toml": "[project]\n"}, []),
}


@pytest.mark.parametrize(("files", "commands"), TESTS.values(), ids=TESTS)
def test_the_tests_of_a_python_project_are_guessed_for_all_three_modes_from(
    files: Mapping[str, str], commands: list[list[str]]
) -> None:
    modes = guessed(files)["modes"]
    assert {mode: [step["cmd"] for step in steps] for mode, steps in modes.items()} == dict.fromkeys(
        ("fast", "full", "merge"), commands
    )


def test_a_project_that_reports_coverage_gets_the_parser_that_reads_it() -> None:
    assert guessed({"requirements.txt": "pytest-cov\n"})["parsers"] == {
        "coverage": {"type": "cobertura_xml", "path": "coverage.xml"}
    }


def test_configured_checks_come_before_the_tests_and_in_full_only() -> None:
    settings = "[tool.ruff]\nline-length = 100\n\n[tool.mypy]\nstrict = true\n\n[tool.pytest.ini_options]\n"
    modes = guessed({"pyproject.toml": settings})["modes"]
    assert {mode: [step["name"] for step in steps] for mode, steps in modes.items()} == {
        "fast": ["test"],
        "full": ["lint", "types", "test"],
        "merge": ["test"],
    }
    lint, types, _test = (step["cmd"] for step in modes["full"])
    assert lint == ["python3", "-m", "ruff", "check"]
    assert types == ["python3", "-m", "mypy", "."]


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[tool.mypy]\nstrict = true\nfiles = ["src"]\n'},
        {"setup.py": "", "mypy.ini": "[mypy]\npackages = shop\n"},
    ],
    ids=["pyproject.toml", "mypy.ini"],
)
def test_mypy_is_not_told_again_what_its_settings_say(files: Mapping[str, str]) -> None:
    assert [step["cmd"] for step in guessed(files)["modes"]["full"]] == [["python3", "-m", "mypy"]]


def test_a_package_below_src_is_tested_from_the_worktree_and_not_from_where_it_is_installed() -> None:
    files = {"pyproject.toml": "pytest", "src/shop/__init__.py": ""}
    assert [step["env"] for step in guessed(files)["modes"]["fast"]] == [{"PYTHONPATH": "src"}]
    assert "env" not in guessed({**files, "uv.lock": ""})["modes"]["fast"][0]


def test_a_project_without_a_sign_of_python_is_not_taken_for_one() -> None:
    assert guessed({"package.json": "{}", "tools/build.py": "import os\n"}) is None


# --- writing ---------------------------------------------------------------------------------------


def python_repository(root: Path, **more: str) -> Path:
    return make_repository(root, {"pyproject.toml": 'dev = ["pytest"]\n', **more})


def test_the_files_are_shown_written_and_in_force(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    ran = run_aop(root, "init", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert {path: (root / path).read_text() for path in NAMES} == {
        NAMES[0]: (
            "# What differs from AOP's defaults; docs/configuration.md lists every key.\n"
            "version: 1\nworktree:\n  base_branch: main\n"
        ),
        NAMES[1]: (
            "# The commands that prove a feature; docs/configuration.md lists every key.\n"
            "version: 1\nprofiles:\n  default:\n    modes:\n"
            '      fast:\n        - name: test\n          cmd: ["python3", "-m", "pytest", "-q"]\n'
            '      full:\n        - name: test\n          cmd: ["python3", "-m", "pytest", "-q"]\n'
            '      merge:\n        - name: test\n          cmd: ["python3", "-m", "pytest", "-q"]\n'
        ),
        NAMES[2]: (
            "# Who does the work, and what each role is told; docs/configuration.md lists every key.\nversion: 1\n"
        ),
    }
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
    places = [root / ".git" / name for name in ("HEAD", "config", "index", "info/exclude")]
    return [git(root, "for-each-ref").encode(), *(place.read_bytes() for place in places)]


def test_nothing_but_the_three_files_is_touched(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    before = untouched(root)
    run_aop(root, "init", "--yes")
    assert git(root, "status", "--porcelain", "-uall") == "".join(f"?? {path}\n" for path in sorted(NAMES))
    assert untouched(root) == before
    assert not (root / ".aop").exists()


def test_the_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    first = run_aop(root, "init", "--yes", "--json").json
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Configure")
    second = run_aop(root, "init", "--json")
    assert (second.code, second.json) == (0, {**first, "written": [], "existing": NAMES, "warnings": []})
    assert "nothing was written" in second.err


def test_json_tells_what_was_written_and_what_was_guessed(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    step = {"name": "test", "cmd": PYTEST}
    assert run_aop(root, "init", "--yes", "--json").json == {
        "ok": True,
        "written": NAMES,
        "existing": [],
        "base_branch": "main",
        "gates": {"default": {"fast": [step], "full": [step], "merge": [step]}},
        "warnings": [
            "The gates run the `python3` that comes first on PATH: start `aop` with this project's virtual environment"
            " active."
        ],
    }


def test_an_existing_file_is_kept_and_the_others_are_written(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    (root / FOLDER).mkdir(parents=True)
    (root / NAMES[0]).write_text("version: 1\nsupervisor: {max_active_features: 2}\n")
    report = run_aop(root, "init", "--yes", "--json").json
    assert (report["existing"], report["written"]) == (NAMES[:1], NAMES[1:])
    assert (root / NAMES[0]).read_text() == "version: 1\nsupervisor: {max_active_features: 2}\n"


def test_a_file_that_only_the_base_branch_has_counts_as_existing(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{NAMES[1]: "version: 1\n"})
    git(root, "checkout", "-q", "-b", "elsewhere")
    git(root, "rm", "-q", NAMES[1])
    git(root, "commit", "-qm", "Away with it")
    report = run_aop(root, "init", "--yes", "--json").json
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
    assert ran.json["gates"] == {"default": {"fast": [], "full": [], "merge": []}}
    assert "no gate has a step" in ran.err
    world = World(root)
    world.plan("one")
    assert world.refusal("gates.run", feature_id="one", mode="fast")["code"] == "no_gate_steps"
    world.close()


def test_a_folder_of_the_repository_is_as_good_as_its_root(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo", **{"src/a.txt": "one\n"})
    ran = run_aop(tmp_path, "init", "--yes", "--repo", str(root / "src"))
    assert ran.code == 0
    assert f"in {root}:\n  git add --" in ran.err
    assert (root / NAMES[0]).is_file()


# --- the base branch -------------------------------------------------------------------------------


def base_branch(root: Path) -> str:
    name: str = run_aop(root, "init", "--yes", "--json").json["base_branch"]
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
    assert ran.json["base_branch"] == "main"
    assert "Commit what was written on `main`" in ran.err


def test_without_main_and_master_the_branch_of_the_checkout_is_the_base(tmp_path: Path) -> None:
    root = python_repository(tmp_path / "repo")
    git(root, "branch", "-m", "trunk")
    assert base_branch(root) == "trunk"
    assert "  base_branch: trunk\n" in (root / NAMES[0]).read_text()


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    ran = run_aop(tmp_path, "init", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "base_branch_unusable")
    assert ran.json["error"]["message"] == (
        "The branch `main` has no commit yet, so there is nothing to cut features from."
    )
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


# --- asking ----------------------------------------------------------------------------------------


def init_at_a_terminal(root: Path, answer: str) -> int:
    """Run `aop init` where a person sits, and let them answer."""
    person, terminal = os.openpty()
    with open(person, "wb", buffering=0) as keyboard, open(terminal, "rb", buffering=0) as stdin:
        keyboard.write(f"{answer}\n".encode())
        command = [sys.executable, "-m", "aop.cli.main", "init"]
        return subprocess.run(command, cwd=root, stdin=stdin, capture_output=True, check=False, timeout=30).returncode


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


# --- placing a file --------------------------------------------------------------------------------


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


# --- the gates that were guessed really work ---------------------------------------------------------


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
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    assert run_aop(root, "init", "--yes").code == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Configure")
    plan = plan_for("one", files={"create": [], "modify": ["src/shop/cart.py"], "delete": []})
    run_aop(root, "call", "feature.init", '{"feature_id": "one"}')
    world = World(root)
    world.ok("plan.submit", role=Role.PLANNER, feature_id="one", plan_json=plan)
    world.close()
    ran = run_aop(root, "call", "gates.run", '{"feature_id": "one", "mode": "fast"}', env={"PATH": path})
    assert ran.code == 0, ran.out
    assert {name: figures["verdict"] for name, figures in ran.json["data"]["coverage"].items()} == {
        "line": "pass",
        "branch": "pass",
    }
