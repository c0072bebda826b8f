"""What a worktree is given beside its tree: copies, links, ports, and the commands that make it ready."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.world import FILES, PASSING_GATES, World, git, make_repository, plan_for

Making = Callable[..., World]

SHOW = "echo $AOP_PORT_0 $AOP_PORT_1 $AOP_DATABASE; cat .env.local modules/lib.txt 2>/dev/null; exit 0\n"
SET_UP = "{cmd: [sh, setup.sh], inputs: [deps.txt]}"
SCRIPT = "cat deps.txt >>made.log; echo spoilt >src/b.txt; echo left >left.txt\n"


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    """Makes a repository whose policy has these keys under `worktree`."""
    made: list[World] = []

    def make(**rules: str) -> World:
        lines = "".join(f"  {key}: {value}\n" for key, value in rules.items())
        files = {
            **FILES,
            "agentic/orchestrator/policy.yaml": f"version: 1\nworktree:\n{lines}" if lines else "version: 1\n",
            "agentic/orchestrator/gates.yaml": PASSING_GATES,
            ".gitignore": "modules/\nmade.log\n*.local\n",
            "check.sh": SHOW,
            "setup.sh": SCRIPT,
            "deps.txt": "first\n",
        }
        root = make_repository(tmp_path / f"repo{len(made)}", files)
        (root / "modules").mkdir()
        (root / "modules/lib.txt").write_text("a library\n")
        (root / ".env.local").write_text("SETTING=1\n")
        made.append(World(root))
        return made[-1]

    yield make
    for world in made:
        world.close()


def worktree(world: World, name: str = "one") -> Path:
    return world.root / ".worktrees" / name


def gate_log(world: World, name: str = "one", mode: str = "fast") -> str:
    """Run the gates; return what the step printed."""
    answer = world.call("gates.run", feature_id=name, mode=mode, force=True)
    assert answer.ok, answer.error
    log_path: str = answer.evidence["log_path"]
    return (world.root / log_path).read_text()


# --- ports and databases -----------------------------------------------------------------------------


def test_every_feature_has_ports_and_a_database_of_its_own_and_keeps_them(making: Making) -> None:
    world = making(ports="2", first_port="21000")
    for name in ("one", "two-b"):
        world.plan(name, files={"create": [f"src/{name}.txt"], "modify": [], "delete": []})
    said = [gate_log(world, name).splitlines()[0] for name in ("one", "two-b", "one")]
    assert said == ["21000 21001 aop_0_one", "21002 21003 aop_1_two_b", "21000 21001 aop_0_one"]


def test_a_port_that_somebody_listens_on_is_passed_over_and_a_deleted_features_ports_are_free(making: Making) -> None:
    world = making(ports="1", first_port="21100")
    with socket.create_server(("127.0.0.1", 21100)):
        world.init("one")
    world.plan("two")
    assert gate_log(world, "two").splitlines()[0].split()[0] == "21100"
    world.ok("feature.delete", feature_id="one", dry_run=False)
    world.plan("three", files={"create": ["src/three.txt"], "modify": [], "delete": []})
    assert gate_log(world, "three").splitlines()[0].split()[0] == "21101"


# --- copies and links --------------------------------------------------------------------------------


def test_a_worktree_gets_copies_and_links_and_its_gates_can_read_both(making: Making) -> None:
    world = making(copy='[".env.local", "conf/**/*.local"]', link="[modules]")
    (world.root / "conf/deep").mkdir(parents=True)
    (world.root / "conf/deep/a.local").write_text("deep\n")
    world.plan("one")
    there = worktree(world)
    assert (there / ".env.local").read_text() == "SETTING=1\n"
    assert (there / "conf/deep/a.local").read_text() == "deep\n"
    assert os.readlink(there / "modules") == str(world.root / "modules")
    assert gate_log(world).splitlines()[1:] == ["SETTING=1", "a library"]
    assert (there / "modules/lib.txt").exists()


def test_files_that_worktreeinclude_names_on_the_base_branch_are_copied(making: Making) -> None:
    world = making()
    (world.root / ".worktreeinclude").write_text("# local settings\n*.local\n!other.local\nmodules/\ncheck.sh\n")
    (world.root / "other.local").write_text("no\n")
    git(world.root, "add", ".worktreeinclude")
    git(world.root, "commit", "-qm", "Include")
    world.plan()
    placed = worktree(world)
    assert (placed / ".env.local").read_text() == "SETTING=1\n"
    assert (placed / "modules/lib.txt").read_text() == "a library\n"
    assert not (placed / "other.local").exists()
    assert "SETTING=1\na library\n" in gate_log(world)


def test_a_worktreeinclude_of_a_feature_is_not_read_even_if_a_person_permits_to_change_it(making: Making) -> None:
    world = making(link="[]\npermitted_protected_paths: [.worktreeinclude]")
    world.plan(files={"create": [".worktreeinclude"], "modify": [], "delete": []}, allowed_areas=["."])
    world.patch(diff="--- /dev/null\n+++ b/.worktreeinclude\n@@ -0,0 +1 @@\n+*.local\n")
    assert "SETTING=1" not in gate_log(world)
    assert not (worktree(world) / ".env.local").exists()


@pytest.mark.parametrize(
    "path", [".worktreeinclude", "modules/bin/python", "modules", "Modules/lib.txt", ".venv/bin/python", ".venv"]
)
def test_no_feature_changes_what_the_checkout_gives_to_worktrees(making: Making, path: str) -> None:
    world = making(link="[modules]")
    files = {"create": [path, "src/new.txt"], "modify": [], "delete": []}
    world.init("one")
    plan = plan_for("one", files=files, allowed_areas=["."])
    planned = world.refusal("plan.submit", feature_id="one", plan_json=plan)
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+*.local\n"
    patched = world.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)
    assert (planned["code"], patched["code"]) == ("protected_path", "plan_required")


@pytest.mark.parametrize("linked_at_first", [True, False])
def test_a_folder_that_a_step_puts_in_the_place_of_a_link_is_not_used_by_the_next_run(
    making: Making, *, linked_at_first: bool
) -> None:
    world = making(link="[modules]")
    there, given, hidden = worktree(world), world.root / "modules", world.root / "modules.hidden"
    if not linked_at_first:
        given.rename(hidden)
    world.plan("one")
    if linked_at_first:
        (there / "modules").unlink()
    else:
        hidden.rename(given)
    (there / "modules/bin").mkdir(parents=True)
    (there / "modules/lib.txt").write_text("forged\n")
    (there / "modules/bin").chmod(0)
    (there / "modules").chmod(0o500)
    assert gate_log(world).splitlines()[1:] == ["a library"]
    assert os.readlink(there / "modules") == str(given)


def test_what_was_placed_is_no_part_of_the_feature_and_goes_with_its_worktree(making: Making) -> None:
    world = making(copy="[secret.txt]", link="[modules]")
    (world.root / "secret.txt").write_text("not ignored by git\n")
    world.plan("one")
    world.patch("one")
    gate_log(world)
    status = world.ok("repo.status", feature_id="one")
    assert (status["strays"], [each["path"] for each in status["changed_files"]]) == ([], ["src/a.txt"])
    assert (worktree(world) / "secret.txt").exists()
    world.ok("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True, force=True)
    assert not worktree(world).exists()
    assert not (world.root / ".aop/quarantine").exists()
    assert (world.root / "modules/lib.txt").read_text() == "a library\n"


def test_what_git_tracks_is_never_placed(making: Making) -> None:
    world = making(copy='["src/*.txt", "**/*.local"]', link="[src, modules]")
    (world.root / "src/a.txt").write_text("changed in the checkout\n")
    (world.root / "staged.local").write_text("staged\n")
    git(world.root, "add", "-f", "staged.local")
    world.init("one")
    there = worktree(world)
    assert (there / "src/a.txt").read_text() == FILES["src/a.txt"]
    assert not (there / "src").is_symlink()
    assert ((there / "staged.local").exists(), (there / ".env.local").exists()) == (False, True)


def test_no_link_is_followed_out_of_the_checkout(making: Making, tmp_path: Path) -> None:
    world = making(copy='["**/*.local"]')
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/key.local").write_text("secret\n")
    (world.root / "way").symlink_to(tmp_path / "outside")
    (world.root / "direct.local").symlink_to(tmp_path / "outside/key.local")
    world.init("one")
    names = {path.name for path in worktree(world).iterdir()}
    assert names & {"way", "direct.local", ".env.local"} == {".env.local"}


def test_a_link_to_what_lies_behind_a_link_is_refused(making: Making, tmp_path: Path) -> None:
    world = making(link="[away]")
    (world.root / "away").symlink_to(tmp_path)
    error = world.call("feature.init", feature_id="one").error
    assert error is not None
    assert (error["code"], error["details"]["path"]) == ("worktree_setup_failed", "away")


def test_too_many_bytes_are_refused(making: Making) -> None:
    world = making(copy="[big.local]")
    with open(world.root / "big.local", "wb") as file:
        file.truncate(65 * 1024 * 1024)
    error = world.call("feature.init", feature_id="one").error
    assert error is not None
    assert error["code"] == "worktree_setup_failed"
    assert not (worktree(world) / "big.local").exists()


def test_what_is_in_the_way_of_a_copy_is_named_and_what_to_do(making: Making) -> None:
    world = making(copy='[".env.local"]')
    (world.root / ".env.local").write_text("deep\n")
    world.plan("one")
    blocking = worktree(world) / ".env.local"
    blocking.unlink()
    blocking.mkdir()
    (blocking / "kept.local").touch()
    error: Any = world.call("gates.run", feature_id="one", mode="fast").error
    assert (error["code"], error["details"]["in_the_way"]) == ("worktree_setup_failed", ".env.local")
    assert error["message"] == (
        "`.env.local` cannot be copied into the worktree of `one`: there is a folder `.env.local` in its place."
    )
    assert error["details"]["suggested_next_actions"] == [
        "Move `.env.local` out of `.worktrees/one`, or take `.env.local` out of `worktree.copy` and `.worktreeinclude`;"
        " then try again."
    ]


def test_copies_follow_the_checkout_and_what_it_no_longer_has_goes(making: Making) -> None:
    world = making(copy='["*.local"]')
    (world.root / "old.local").write_text("old\n")
    world.plan("one")
    (world.root / ".env.local").write_text("SETTING=2\n")
    (world.root / "old.local").unlink()
    assert gate_log(world).splitlines()[1:] == ["SETTING=2"]
    assert not (worktree(world) / "old.local").exists()


# --- set-up commands ---------------------------------------------------------------------------------


def made(world: World) -> str:
    return (worktree(world) / "made.log").read_text()


def test_set_up_commands_run_once_before_the_first_gates_and_again_when_their_inputs_change(making: Making) -> None:
    world = making(setup=f"[{SET_UP}]")
    world.plan(
        "one",
        files={"create": [], "modify": ["src/a.txt", "deps.txt"], "delete": []},
        allowed_areas=["src", "deps.txt"],
    )
    gate_log(world)
    gate_log(world)
    assert made(world) == "first\n"
    world.patch("one", "--- a/deps.txt\n+++ b/deps.txt\n@@ -1 +1 @@\n-first\n+second\n")
    gate_log(world)
    assert made(world) == "first\nsecond\n"
    world.patch("one")
    gate_log(world)
    assert made(world) == "first\nsecond\n"


def test_what_a_set_up_command_does_to_the_tree_is_undone(making: Making) -> None:
    world = making(setup=f"[{SET_UP}]")
    world.plan("one")
    world.ok("repo.ensure_worktree", feature_id="one")
    assert (worktree(world) / "src/b.txt").read_text() == FILES["src/b.txt"]
    assert not (worktree(world) / "left.txt").exists()


def test_a_worktree_that_is_made_again_is_set_up_again(making: Making) -> None:
    world = making(setup=f"[{SET_UP}]")
    world.plan("one")
    world.ok("repo.ensure_worktree", feature_id="one")
    shutil.rmtree(worktree(world))
    world.ok("repo.ensure_worktree", feature_id="one")
    assert made(world) == "first\n"


def test_a_set_up_command_that_fails_is_told_with_its_log_and_tried_again(making: Making) -> None:
    world = making(
        setup='[{cmd: [sh, -c, "echo $AOP_DATABASE needs a friend; test -e friend.local"]}]', copy="[friend.local]"
    )
    world.plan("one")
    error: Any = world.call("gates.run", feature_id="one", mode="fast").error
    assert (error["code"], error["details"]["exit_code"]) == ("worktree_setup_failed", 1)
    assert error["details"]["log_tail"] == "aop_0_one needs a friend\n"
    assert json.dumps(error).count(str(world.root)) == 0
    (world.root / "friend.local").touch()
    assert world.call("gates.run", feature_id="one", mode="fast").ok


def test_the_merged_tree_is_set_up_before_its_gates_too(making: Making) -> None:
    world = making(setup=f"[{SET_UP}]", copy="[.env.local]", link="[modules]")
    world.ready("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    logs = sorted((world.root / "agentic/features/one/logs").glob("gate-*.log"), key=os.path.getmtime)
    assert logs[-1].read_text().splitlines()[1:] == ["SETTING=1", "a library"]


# --- the network of set-up commands ------------------------------------------------------------------

FETCH = "{cmd: [python3, fetch.py], inputs: [deps.txt], network: host}"
DEPENDENCY = "--- a/deps.txt\n+++ b/deps.txt\n@@ -1 +1 @@\n-first\n+second\n"
NETWORKED = {"files": {"create": [], "modify": ["src/a.txt", "deps.txt"], "delete": []}, "allowed_areas": ["."]}


@pytest.fixture
def listening() -> Iterator[int]:
    """A server of this machine, which a command reaches only through the host's network; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def networked(making: Making, port: int, setup: str = FETCH) -> World:
    """Make a repository whose set-up command connects to a port."""
    world = making(setup=f"[{setup}]")
    script = (
        f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\nopen('made.log', 'a').write('got\\n')\n"
    )
    (world.root / "fetch.py").write_text(script)
    git(world.root, "add", "fetch.py")
    git(world.root, "commit", "-qm", "Fetch")
    return world


def set_up_refusal(world: World, mode: str = "fast") -> Any:
    error: Any = world.call("gates.run", feature_id="one", mode=mode).error
    return error


def open_questions(world: World) -> list[Any]:
    return list(world.ok("inbox.list")["questions"])


def test_a_set_up_command_has_the_network_while_its_inputs_are_the_bases(making: Making, listening: int) -> None:
    world = networked(making, listening)
    world.plan("one")
    world.patch("one")
    gate_log(world)
    assert (made(world), open_questions(world)) == ("got\n", [])


def test_a_changed_input_closes_the_network_until_a_person_opens_it_for_that_tree(
    making: Making, listening: int
) -> None:
    world = networked(making, listening)
    world.plan("one", **NETWORKED)
    tree = world.patch("one", DEPENDENCY)["tree"]
    error = set_up_refusal(world)
    assert (error["code"], error["details"]["paths"], error["details"]["question_id"]) == (
        "setup_needs_network",
        ["deps.txt"],
        "q1",
    )
    set_up_refusal(world)
    [question] = open_questions(world)
    assert (question["gate"], question["choices"], question["detail"]["tree"]) == ("authorisation", ["yes", "no"], tree)
    assert "`deps.txt`" in question["text"]
    world.ok("inbox.answer", feature_id="one", question_id="q1", answer="yes")
    gate_log(world)
    assert made(world) == "got\n"
    world.patch("one", DEPENDENCY.replace("-first", "-second").replace("+second", "+third"))
    assert set_up_refusal(world)["details"]["question_id"] == "q2"


def test_a_no_keeps_the_network_closed_and_asks_no_more(making: Making, listening: int) -> None:
    world = networked(making, listening)
    world.plan("one", **NETWORKED)
    world.patch("one", DEPENDENCY)
    set_up_refusal(world)
    world.ok("inbox.answer", feature_id="one", question_id="q1", answer="no")
    error = set_up_refusal(world)
    assert (error["code"], open_questions(world)) == ("worktree_setup_failed", [])
    assert "without the network that a person refused it" in error["message"]


def test_a_question_about_an_earlier_tree_is_closed(making: Making, listening: int) -> None:
    world = networked(making, listening)
    world.plan("one", **NETWORKED)
    world.patch("one", DEPENDENCY)
    set_up_refusal(world)
    world.patch("one")
    set_up_refusal(world)
    assert [question["question_id"] for question in open_questions(world)] == ["q2"]


@pytest.mark.parametrize(
    ("setup", "path"),
    [
        pytest.param("{cmd: [python3, fetch.py], network: host}", "src/new.txt", id="any_file_without_inputs"),
        pytest.param(FETCH, "sub/setup.py", id="a_build_file_that_no_input_names"),
        pytest.param(
            "{cmd: [python3, ./fetch.py, tool.py], inputs: [deps.txt], network: host}", "tool.py", id="a_word"
        ),
        pytest.param(
            "{cmd: [sh, -c, 'true'], inputs: [other.txt]}, " + FETCH, "other.txt", id="an_input_of_a_command_before"
        ),
    ],
)
def test_other_files_that_a_set_up_command_may_run_close_its_network_too(
    making: Making, listening: int, setup: str, path: str
) -> None:
    world = networked(making, listening, setup)
    world.plan("one", files={"create": [path], "modify": [], "delete": []}, allowed_areas=["."])
    world.patch("one", f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new = 1\n")
    error = set_up_refusal(world)
    assert (error["code"], error["details"]["paths"]) == ("setup_needs_network", [path])


def test_a_command_that_passes_without_the_network_asks_nobody(making: Making) -> None:
    world = making(setup="[{cmd: [sh, setup.sh], inputs: [deps.txt], network: host}]")
    world.plan("one", **NETWORKED)
    world.patch("one", DEPENDENCY)
    gate_log(world)
    assert (made(world), open_questions(world)) == ("second\n", [])


def test_a_merge_is_refused_while_its_set_up_would_need_a_network_that_nobody_opened(
    making: Making, listening: int
) -> None:
    world = networked(making, listening)
    world.plan("one", **NETWORKED)
    world.patch("one", DEPENDENCY)
    set_up_refusal(world)
    world.ok("inbox.answer", feature_id="one", question_id="q1", answer="yes")
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)
    (world.root / "late.txt").write_text("late\n")
    git(world.root, "add", "late.txt")
    git(world.root, "commit", "-qm", "The base moves")
    token = world.approval("one")
    error: Any = world.call("feature.ready_to_merge", feature_id="one", user_approval_token=token).error
    assert (error["code"], error["details"]["question_id"]) == ("setup_needs_network", "q2")
    world.ok("inbox.answer", feature_id="one", question_id="q2", answer="yes")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=token)
