"""Commands of a build: real processes on its tree, through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.forge.builds.workspace.pinned_commands import pinned_commands
from aop.forge.projects.documents import ForgeBuild
from tests.forge.broker.shelves import Agent
from tests.forge.builds.begun import begun, worktree_of
from tests.kernel.tools.worlds import configured, state_of
from tests.world import World, git

POLICY = {
    "forge": {"build": {"commands": ["sh run.sh", "python -m unittest", "rm", "mv"], "command_seconds": 20}},
    "worktree": {"link": ["vendor"]},
}
DOES = {
    "ok": "echo fine",
    "fails": "echo no; exit 3",
    "writes": "echo made > src/made.txt",
    "guarded": "echo made > src/made.txt; echo x > agentic/x.yaml",
    "shown": "echo x > Forge/Contracts/stack.md; rm Forge/.gitignore; echo y > Forge/more.txt; echo z > src/z.txt",
    "cache": "mkdir -p src/__pycache__; echo x > src/__pycache__/a.pyc",
    "errs": "echo out; echo err >&2; exit 1",
    "cries": "head -c 300000 /dev/zero | tr '\\0' x | fold >&2; echo done",
    "link": "rm src/b.txt; ln -s /etc/passwd src/b.txt",
    "floods": "yes 0123456789 | head -c 300000",
    "gigabyte": "yes 0123456789 | head -c 1000000000; echo; echo last",
    "sleeps": "sleep 100",
    "leaves": "sleep 4321 & echo left",
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A builder whose repository has a script; each test begins with its own files."""
    script = "case $1 in\n" + "".join(f"{name}) {line};;\n" for name, line in DOES.items()) + "esac\n"
    root = tmp_path_factory.mktemp("commands") / "repo"
    world = configured(root, policy=POLICY, files={"run.sh": script})
    yield Agent(world, Role.FORGE_BUILDER, project="shop", build=begun(world))
    world.close()


BUILD = "shop-b1"


def status(world: World) -> str:
    return git(worktree_of(world, BUILD), "status", "--porcelain")


@pytest.mark.req("FORGE-029")
@pytest.mark.parametrize(("what", "passed", "code", "output"), [("ok", True, 0, "fine\n"), ("fails", False, 3, "no\n")])
def test_a_test_command_answers_with_its_exit_code_and_output(
    agent: Agent, what: str, *, passed: bool, code: int, output: str
) -> None:
    before = state_of(agent.world, BUILD)
    ran = agent.ok("run_tests", command=f"sh run.sh {what}")
    assert (ran["passed"], ran["exit_code"], ran["stdout"], ran["tree"]) == (passed, code, output, before.tree)
    assert state_of(agent.world, BUILD) == before


def test_what_tests_leave_is_discarded_and_named(agent: Agent) -> None:
    before = state_of(agent.world, BUILD)
    ran = agent.ok("run_tests", command="sh run.sh writes")
    assert (ran["changed"], ran["discarded"], ran["refusal"]) == ([], ["src/made.txt"], "")
    assert (state_of(agent.world, BUILD), status(agent.world)) == (before, "")


@pytest.mark.req("FORGE-031")
def test_what_a_command_leaves_is_judged_and_becomes_part_of_the_build(agent: Agent) -> None:
    ran = agent.ok("run_command", command="sh run.sh writes")
    assert (ran["changed"], ran["discarded"], ran["refusal"]) == (["src/made.txt"], [], "")
    assert ran["tree"] == state_of(agent.world, BUILD).tree
    assert agent.ok("read_file", path="src/made.txt")["content"] == "made\n"
    assert (worktree_of(agent.world, BUILD) / "src/made.txt").read_text() == "made\n"
    with agent.world.app.record.read() as view:
        kinds = [each.event.kind for each in view.journal(feature_id=FeatureId(BUILD), newest=3)]
    assert kinds == ["patch_applied", "file_generated", "command_ran"]


@pytest.mark.parametrize(
    ("what", "discarded", "reason"),
    [
        ("guarded", {"agentic/x.yaml", "src/made.txt"}, "belongs to AOP itself"),
        ("link", {"src/b.txt"}, "symlink"),
        ("cache", {"src/__pycache__/a.pyc"}, ""),
    ],
)
def test_what_no_build_may_hold_is_undone_and_named(agent: Agent, what: str, discarded: set[str], reason: str) -> None:
    agent.ok("write_file", path="src/made.txt", content="kept\n")
    before = state_of(agent.world, BUILD)
    ran = agent.ok("run_command", command=f"sh run.sh {what}")
    assert (ran["changed"], set(ran["discarded"]), reason in ran["refusal"]) == ([], discarded, True)
    assert (bool(ran["refusal"]), state_of(agent.world, BUILD)) == (bool(reason), before)
    assert (worktree_of(agent.world, BUILD) / "src/made.txt").read_text() == "kept\n"


def test_a_command_that_changes_the_shown_contracts_changes_none_of_them(agent: Agent) -> None:
    shown = worktree_of(agent.world, BUILD) / "Forge"
    contract = (shown / "Contracts/stack.md").read_text()
    ran = agent.ok("run_command", command="sh run.sh shown")
    assert (ran["changed"], ran["refusal"]) == (["src/z.txt"], "")
    assert ((shown / "Contracts/stack.md").read_text(), (shown / "more.txt").exists()) == (contract, False)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sh run.sh ok; rm -rf .", "invalid_arguments"),
        ("sh run.sh ok | tee x", "invalid_arguments"),
        ("sh run.sh $(id)", "invalid_arguments"),
        ("sh run.sh `id`", "invalid_arguments"),
        ("sh run.sh ok > x", "invalid_arguments"),
        ("sh run.sh 'open", "invalid_arguments"),
        ("sh -c id", "command_not_allowed"),
        ("python -c 1", "command_not_allowed"),
        ("shrun.sh", "command_not_allowed"),
        ("sh run.sh .git/config", "command_not_allowed"),
        ("sh run.sh --file=x/.GIT/config", "command_not_allowed"),
        ("sh run.sh AKIAIOSFODNN7ABCDEFG", "secret_detected"),
    ],
)
def test_a_command_that_is_not_allowed_is_refused(agent: Agent, command: str, code: str) -> None:
    before = agent.world.fingerprint()
    error = agent.call("run_command", command=command).error
    assert error is not None
    assert (error["code"], agent.world.fingerprint()) == (code, before)


def test_a_command_may_not_ask_for_ten_minutes(agent: Agent) -> None:
    error = agent.call("run_command", command="sh run.sh ok", timeout=600).error
    assert error is not None
    assert (error["code"], "300 s" in error["message"]) == ("invalid_arguments", True)


def test_a_command_that_takes_too_long_is_ended(agent: Agent) -> None:
    ran = agent.ok("run_command", command="sh run.sh sleeps", timeout=1)
    assert (ran["outcome"], ran["passed"]) == ("timed_out", False)


def test_a_process_that_a_command_leaves_is_ended(agent: Agent) -> None:
    assert agent.ok("run_command", command="sh run.sh leaves")["stdout"] == "left\n"
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert b"sleep\x004321\x00" not in running


def test_standard_output_and_standard_error_are_two_texts_with_limits_of_their_own(agent: Agent) -> None:
    ran = agent.ok("run_tests", command="sh run.sh errs")
    assert (ran["stdout"], ran["stderr"], ran["exit_code"], ran["truncated"]) == ("out\n", "err\n", 1, False)
    cried = agent.ok("run_tests", command="sh run.sh cries")
    assert (cried["stdout"], len(cried["stderr"]), cried["truncated"]) == ("done\n", 10_240, True)


def test_a_file_is_deleted_or_moved_by_a_command_that_is_judged_like_a_write(agent: Agent) -> None:
    agent.ok("write_file", path="old/a.txt", content="a\n")
    agent.ok("write_file", path="old/b.txt", content="b\n")
    assert agent.ok("run_command", command="mv old/a.txt src/moved.txt")["changed"] == ["old/a.txt", "src/moved.txt"]
    assert agent.ok("run_command", command="rm -r old")["changed"] == ["old/b.txt"]
    assert agent.ok("read_file", path="src/moved.txt")["content"] == "a\n"
    assert agent.call("read_file", path="old/b.txt").error is not None
    guarded = agent.ok("run_command", command="rm agentic/orchestrator/policy.yaml")
    assert (guarded["changed"], "belongs to AOP itself" in guarded["refusal"]) == ([], True)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("rm", "invalid_arguments"),
        ("mv run.sh", "invalid_arguments"),
        ("rm missing.txt", "file_not_found"),
        ("rm Forge/Contracts/stack.md", "file_not_found"),
        ("rm ../repo/run.sh", "path_out_of_bounds"),
        ("rm /etc/hosts", "path_out_of_bounds"),
        ("rm src/*", "path_out_of_bounds"),
        ("rm --no-preserve-root run.sh", "command_not_allowed"),
        ("mv -t /tmp run.sh", "command_not_allowed"),
        ("mv run.sh /tmp/run.sh", "path_out_of_bounds"),
        ("mv run.sh run.sh/more", "invalid_arguments"),
        ("mv run.sh vendor/run.sh", "invalid_arguments"),
    ],
)
def test_only_files_of_the_build_are_deleted_or_moved(agent: Agent, command: str, code: str) -> None:
    before = agent.world.fingerprint()
    error = agent.call("run_command", command=command).error
    assert error is not None
    assert (error["code"], agent.world.fingerprint()) == (code, before)


def test_long_output_is_cut_at_its_beginning(agent: Agent) -> None:
    ran = agent.ok("run_command", command="sh run.sh floods")
    assert (len(ran["stdout"]), ran["truncated"]) == (51_200, True)


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_gigabyte_of_output_is_read_and_its_end_is_kept(agent: Agent) -> None:
    ran = agent.ok("run_tests", command="sh run.sh gigabyte", timeout=55)
    assert (ran["outcome"], len(ran["stdout"]), ran["stdout"][-5:], ran["truncated"]) == (
        "passed",
        51_200,
        "last\n",
        True,
    )


def test_the_pinned_verification_may_be_run_though_it_is_not_listed(agent: Agent) -> None:
    with agent.world.app.record.read() as view:
        build = view.get(ForgeBuild, BUILD)
        assert build is not None
        first = pinned_commands(view, build)[0]
    assert agent.ok("run_tests", command=" ".join(first), timeout=5)["build_id"] == BUILD


@pytest.mark.req("FORGE-030")
@pytest.mark.parametrize(
    ("path", "content", "valid", "checker", "line"),
    [
        ("good.py", "def f():\n    return 1\n", True, "python", ""),
        ("bad.py", "x = 1\ndef f(:\n", False, "python", "line 2"),
        ("outside.py", "return 1\n", False, "python", "line 1"),
        ("deep.py", "(" * 5000, False, "python", "line 1"),
        ("good.json", '{"a": [1]}\n', True, "json", ""),
        ("bad.json", '{\n"a": }\n', False, "json", "line 2"),
        ("bad.toml", "a = \n", False, "toml", "line 1"),
        ("good.ts", "const a: number = 1;\n", True, "tree-sitter (typescript)", ""),
        ("bad.js", "let a = 1;\nfunction (\n", False, "tree-sitter (javascript)", "line 2"),
        ("bad.rs", "fn main( {\n", False, "tree-sitter (rust)", "line 1"),
        ("notes.txt", "anything\n", None, "", ""),
    ],
)
def test_syntax_is_checked_by_what_knows_the_language(
    agent: Agent, path: str, content: str, *, valid: Any, checker: str, line: str
) -> None:
    agent.ok("write_file", path=path, content=content)
    found = agent.ok("check_syntax", file_path=path)
    assert (found["valid"], found["checker"].startswith(checker)) == (valid, True)
    assert [line in problem for problem in found["problems"]] == ([True] if line else [])
