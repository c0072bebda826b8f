"""`aop init` tries the gates that it guessed on the base commit, and cures what is red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.core.text.yaml import parse_yaml
from tests.world import Ran, git, make_repository, run_aop

FOLDER = "agentic/orchestrator"
UNITTEST = "import unittest\n\n\nclass ATest(unittest.TestCase):\n    def test_a(self):\n        {}\n"
PASSING = UNITTEST.format("self.assertEqual(1, 1)")
NODE = shutil.which("node")


def tried(root: Path, *words: str, env: Mapping[str, str] | None = None) -> Ran:
    """Run `aop init` with a PATH that has no package manager, so that no test fetches anything."""
    return run_aop(root, "init", "--yes", "--json", *words, env=env)


def data_of(ran: Ran) -> Any:
    assert ran.code == 0, ran.err
    return ran.json["data"]


def results(ran: Ran) -> dict[str, tuple[str, str]]:
    return {one["mode"]: (one["result"], one["cause"]) for one in data_of(ran)["gates"] if one["profile"] == "default"}


def every(result: str, cause: str = "") -> dict[str, tuple[str, str]]:
    return dict.fromkeys(("fast", "full", "merge"), (result, cause))


def gates_of(root: Path) -> Any:
    value: Any = parse_yaml((root / FOLDER / "gates.yaml").read_bytes()).value
    return value["profiles"]["default"]


def fake_environment(place: Path, *, modules: Mapping[str, str]) -> None:
    """Make a virtual environment that has these modules, as nothing is fetched in tests."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    (packages,) = place.glob("lib/python*/site-packages")
    for name, text in modules.items():
        (packages / f"{name}.py").write_text(text)


def test_gates_that_pass_are_run_before_they_are_written_and_equal_modes_once(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": PASSING})
    ran = tried(root)
    assert results(ran) == every("pass")
    assert ran.err.count("base: ") == 1
    assert "  Python, fast: passed in " in ran.err
    assert git(root, "status", "--porcelain") == "?? agentic/\n"
    assert run_aop(root, "doctor", "--gates").code == 0


def test_tests_that_really_fail_are_written_as_a_comment_with_the_line_to_add(tmp_path: Path) -> None:
    failing = UNITTEST.format("self.assertEqual(1, 2)")
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": failing})
    ran = tried(root)
    assert results(ran) == every("fail", "tests_failed")
    assert gates_of(root) == {"modes": {"fast": [], "full": [], "merge": []}}
    text = (root / FOLDER / "gates.yaml").read_text()
    assert "# Left out: `test` did not pass on the base commit: tests fail.\n" in text
    line = '- {name: "test", cmd: ["python3", "-m", "unittest", "discover", "-s", "tests"]}'
    assert text.count(f"      # To require it, add: {line}\n") == 3
    assert data_of(ran)["gates"][0]["cure"] == f"Add to `fast` when it passes: {line}"


FAKE_RUFF = "import sys\n\nsys.exit('a.py:1:1: E501 Line too long')\n"


def test_a_linter_that_the_base_does_not_pass_is_no_gate(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "repo",
        {"setup.py": "", "ruff.toml": "", "ruff.py": FAKE_RUFF, "tests/test_a.py": PASSING},
    )
    ran = tried(root)
    assert results(ran) == {**every("pass"), "full": ("pass", "failed")}
    assert [step["name"] for step in gates_of(root)["modes"]["full"]] == ["test"]
    assert data_of(ran)["left_out"] == [
        {"profile": "default", "modes": ["full"], "command": "python3 -m ruff check", "cause": "failed"}
    ]
    assert (
        '# To require it, add: - {name: "lint", cmd: ["python3", "-m", "ruff", "check"]}'
        in (root / FOLDER / "gates.yaml").read_text()
    )


NEEDS_CLICK = UNITTEST.replace("import unittest\n", "import unittest\n\nimport clicked\n").format("clicked.now()")


def test_the_environment_of_the_checkout_is_used_and_linked_into_worktrees(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "repo", {"setup.py": "", ".gitignore": ".venv/\n", "tests/test_a.py": NEEDS_CLICK}
    )
    fake_environment(root / ".venv", modules={"clicked": "def now():\n    pass\n"})
    ran = tried(root)
    assert results(ran) == every("pass")
    assert gates_of(root)["modes"]["fast"][0]["cmd"][:2] == [".venv/bin/python", "-m"]
    policy: Any = parse_yaml((root / FOLDER / "policy.yaml").read_bytes()).value
    assert policy["worktree"] == {"base_branch": "main", "link": [".venv"]}
    assert data_of(ran)["gates"][0]["cure"] == ("use the Python of `.venv`, linked into each worktree (worktree.link)")


@pytest.mark.skipif(NODE is None, reason="this machine has no node")
def test_the_packages_of_a_node_checkout_are_linked_into_worktrees(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "repo",
        {
            "package.json": '{"scripts": {"test": "node test.js"}, "devDependencies": {"clicked": "1"}}',
            "package-lock.json": "{}",
            ".gitignore": "node_modules/\n",
            "test.js": "require('clicked')\n",
        },
    )
    (root / "node_modules/clicked").mkdir(parents=True)
    (root / "node_modules/clicked/index.js").write_text("")
    ran = tried(root)
    assert results(ran) == every("pass")
    assert [step["name"] for step in gates_of(root)["modes"]["merge"]] == ["test"]
    assert '  link: ["node_modules"]\n' in (root / FOLDER / "policy.yaml").read_text()


def test_the_test_command_of_a_makefile_is_tried_where_the_guess_is_red(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "repo",
        {
            "setup.py": "",
            "Makefile": "test:\n\tpython3 checks/run.py\n",
            "checks/run.py": "print('3 checks')\n",
            "tests/test_a.py": "import unittest\n\nraise SystemExit('run checks/run.py instead')\n",
        },
    )
    ran = tried(root)
    assert results(ran) == {**every("pass"), "fast": ("pass", "tests_failed")}
    assert gates_of(root)["modes"]["fast"] == [{"name": "test", "cmd": ["make", "test"]}]
    assert data_of(ran)["gates"][0]["cure"] == "run `make test`, as `Makefile` does"


def test_a_repository_without_tests_gets_no_gate_and_is_told(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "shop/a.py": "A = 1\n"})
    ran = tried(root)
    assert results(ran) == every("not_run", "no_tests")
    assert "No tests were found. Modes without steps cannot pass" in ran.err


NEEDS_NETWORK = UNITTEST.replace("import unittest\n", "import socket\nimport unittest\n").format(
    'socket.create_connection(("192.0.2.1", 9), timeout=5)'
)


def test_tests_that_need_the_network_are_named_as_such(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": NEEDS_NETWORK})
    ran = tried(root)
    assert results(ran) == every("fail", "network_refused")
    assert (
        "it needs the network, and gates have none (`execution.network: host` would open it)"
        in (root / FOLDER / "gates.yaml").read_text()
    )


def test_each_project_of_a_monorepo_is_run_on_a_base_branch_of_another_name(tmp_path: Path) -> None:
    files = {"setup.py": "", "tests/test_a.py": PASSING}
    root = make_repository(
        tmp_path / "repo", {f"{folder}/{path}": text for folder in ("api", "tool") for path, text in files.items()}
    )
    git(root, "branch", "-qm", "trunk")
    ran = tried(root)
    assert {(row["profile"], row["result"]) for row in data_of(ran)["gates"]} == {
        (profile, "pass") for profile in ("default", "api", "tool")
    }
    policy: Any = parse_yaml((root / FOLDER / "policy.yaml").read_bytes()).value
    assert policy["worktree"] == {"base_branch": "trunk"}
    assert run_aop(root, "doctor", "--gates").code == 0


def test_a_shallow_clone_with_a_detached_head_is_tried_on_its_branch(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"setup.py": "", "tests/test_a.py": PASSING})
    git(origin, "commit", "-q", "--allow-empty", "-m", "Second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "repo")
    root = tmp_path / "repo"
    git(root, "checkout", "-q", "--detach")
    ran = tried(root, "--commit")
    assert results(ran) == every("pass")
    assert "Not committed: `main` is not checked out here." in ran.err


def test_submodules_and_large_files_are_said_to_be_missing_in_worktrees(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", {"a.txt": "one\n"})
    root = make_repository(
        tmp_path / "repo",
        {"setup.py": "", "tests/test_a.py": PASSING, ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"},
    )
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "libs/library")
    git(root, "commit", "-qm", "Library")
    ran = tried(root)
    assert results(ran) == every("pass")
    assert data_of(ran)["warnings"] == [
        "Worktrees do not hold the files of submodules (`libs/library`), and gates run without them.",
        "Files in Git LFS are pointers in worktrees: gates do not see their contents.",
    ]


def test_a_file_that_a_build_made_among_the_sources_is_copied_into_worktrees(tmp_path: Path) -> None:
    needs_version = UNITTEST.format("from shop import _version")
    root = make_repository(
        tmp_path / "repo",
        {"setup.py": "", ".gitignore": "_version.py\n", "shop/__init__.py": "", "tests/test_a.py": needs_version},
    )
    (root / "shop/_version.py").write_text("VERSION = '1'\n")
    ran = tried(root)
    assert results(ran) == {**every("pass"), "fast": ("pass", "module_missing")}
    policy: Any = parse_yaml((root / FOLDER / "policy.yaml").read_bytes()).value
    assert policy["worktree"] == {"base_branch": "main", "copy": ["shop/_version.py"]}


def test_one_commit_of_the_three_files_leaves_what_is_staged_alone(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": PASSING})
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    (root / "other.txt").write_text("mine\n")
    git(root, "add", "other.txt")
    ran = tried(root, "--no-run", "--commit")
    assert git(root, "show", "--name-only", "--format=%an <%ae> %s", "HEAD").split("\n") == [
        "Ada <ada@example.org> Let AOP manage this repository",
        "",
        *(f"{FOLDER}/{name}.yaml" for name in ("agents", "gates", "policy")),
        "",
    ]
    assert git(root, "status", "--porcelain") == "A  other.txt\n"
    assert data_of(ran)["commit"] == git(root, "rev-parse", "HEAD").strip()
    assert f"Committed 3 files as {git(root, 'rev-parse', 'HEAD')[:10]} on `main`." in ran.err


def test_a_commit_that_git_refuses_leaves_the_files_and_the_index(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": PASSING})
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no commits today >&2\nexit 1\n")
    hook.chmod(0o755)
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    ran = tried(root, "--no-run", "--commit")
    assert (data_of(ran)["commit"], len(data_of(ran)["files"])) == (None, 3)
    assert "Not committed. `git commit` said: no commits today" in ran.err
    assert git(root, "status", "--porcelain") == "?? agentic/\n"


def test_the_network_is_opened_for_a_set_up_command_only_if_the_person_agrees(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": NEEDS_CLICK})
    person, terminal = os.openpty()
    with open(person, "wb", buffering=0) as keyboard, open(terminal, "rb", buffering=0) as stdin:
        keyboard.write(b"n\ny\nn\n")
        command = [sys.executable, "-m", "aop.cli.main", "init"]
        ran = subprocess.run(command, cwd=root, stdin=stdin, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    question = ran.stderr[ran.stderr.index("needs the network to set up a worktree.") :]
    assert " ".join(question.split()).startswith(
        "needs the network to set up a worktree. It runs code of this repository (setup.py, the build backend, install"
        " scripts of package.json) and of the packages that it installs. All that code can then use the network of this"
        " machine, in every worktree. Where a feature changes a manifest, a lock file or another input of the command,"
        " the network stays closed until a person agrees. Allow it, for this command alone? [y/N]"
    )
    assert "setting up its worktree" not in ran.stderr
    assert "Left out: `test` did not pass on the base commit: a module or package is not installed." in ran.stderr
    assert "network" not in (root / FOLDER / "policy.yaml").read_text()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_is_cut_off_by_a_pipe_leaves_all_three_files_or_none(tmp_path: Path, stream: str) -> None:
    root = make_repository(tmp_path / "repo", {"setup.py": "", "tests/test_a.py": PASSING})
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer}
    command = [sys.executable, "-m", "aop.cli.main", "init", "--yes", "--no-run", "--json"]
    subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, check=False, timeout=120, **streams)  # type: ignore[call-overload] # three names
    os.close(writer)
    there = sorted(path.name for path in (root / FOLDER).glob("*")) if (root / FOLDER).exists() else []
    assert there == (["agents.yaml", "gates.yaml", "policy.yaml"] if stream == "stdout" else [])
