"""`aop demo`, as a real process: what it reports is what git and the record say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.kernel.record.documents.questions import Question
from tests.cli.begin import demo_picture
from tests.world import Ran, World, git, run_aop

SECONDS = 300.0
pytestmark = pytest.mark.slow

FEATURE = FeatureId("volume_discount")
FEATURES = ["gift_wrap", "order_number", "receipt", "stock", FEATURE]


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def kept(temporary: Path) -> Ran:
    """One run whose repository stays."""
    return run_aop(temporary, "demo", "--json", "--keep", env={"TMPDIR": str(temporary)}, seconds=SECONDS)


@pytest.fixture
def shop(kept: Ran) -> Iterator[World]:
    """The repository that the run left."""
    world = World(Path(kept.json["data"]["repository"]))
    yield world
    world.close()


def test_stdout_is_one_object_that_names_the_merged_features_in_their_order(kept: Ran, shop: World) -> None:
    assert kept.code == 0, kept.err
    report = kept.json["data"]
    seconds = report.pop("seconds")
    assert seconds > 0
    assert report == {
        "features": [
            {
                "feature_id": name,
                "status": "merged",
                "tree": git(shop.root, "rev-parse", f"{name}^{{tree}}").strip(),
                "merge_commit": git(shop.root, "rev-parse", f"main~{len(FEATURES) - number}").strip(),
                "gates": {"plan": "pass", "fast": "pass", "full": "pass", "merge": "pass"},
            }
            for number, name in enumerate(FEATURES, start=1)
        ],
        "repository": str(shop.root),
    }


def test_the_picture_in_the_readme_shows_what_is_printed(temporary: Path) -> None:
    shown = run_aop(temporary, "demo", env={"TMPDIR": str(temporary)}, seconds=SECONDS)
    lines = demo_picture.chosen(shown.err + shown.out)
    if os.environ.get("AOP_WRITE_PAGE"):
        demo_picture.PICTURE.write_text(demo_picture.drawn(lines))
    assert demo_picture.shown_lines(demo_picture.PICTURE.read_text()) == lines


def test_the_features_are_on_the_base_branch_as_merges_of_what_was_approved(shop: World) -> None:
    assert git(shop.root, "log", "--first-parent", "--format=%s", "main").splitlines() == [
        *(f"Merge feature {name}" for name in reversed(FEATURES)),
        "Let AOP manage this repository",
        "A small shop",
    ]
    assert len(git(shop.root, "log", "-1", "--format=%P", "main").split()) == 2
    assert "if pieces >= PIECES_FOR_DISCOUNT:" in git(shop.root, "show", "main:shop/cart.py")
    assert {f"shop/{name}.py" for name in FEATURES[:-1]} <= set(
        git(shop.root, "ls-tree", "-r", "--name-only", "main").split()
    )


def test_the_record_tells_the_whole_story_with_the_gate_that_failed(shop: World) -> None:
    with shop.app.record.read() as view:
        entries = [entry.event for entry in view.journal(feature_id=FEATURE) if entry.event.kind != "turn_taken"]
    told = [(event.actor, event.kind, verdict_in(event.payload)) for event in entries]
    assert told[:8] == [
        (f"orchestrator:{FEATURE}", "feature_initialised", ""),
        (f"planner:{FEATURE}", "plan_accepted", ""),
        (f"builder:{FEATURE}", "patch_applied", ""),
        (f"builder:{FEATURE}", "gates_ran", "fast fail"),
        (f"builder:{FEATURE}", "patch_applied", ""),
        (f"builder:{FEATURE}", "gates_ran", "fast pass"),
        (f"qa:{FEATURE}", "gates_ran", "full pass"),
        ("person:demo", "approval_granted", ""),
    ]
    assert told[-1] == ("person:demo", "feature_merged", "")


@pytest.mark.req("AOP-009")
def test_five_worktrees_are_there_at_once_before_anything_is_ready(shop: World) -> None:
    with shop.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal()]
    assert kinds.index("feature_merged") > max(
        number for number, kind in enumerate(kinds) if kind == "feature_initialised"
    )
    assert sorted(path.name for path in (shop.root / ".worktrees").iterdir()) == sorted(FEATURES)


@pytest.mark.req("AOP-009")
def test_a_collision_is_arbitrated_and_a_question_is_answered(kept: Ran, shop: World) -> None:
    assert "receipt: planner: plan.submit: The plan of `receipt` collides with the accepted plan of" in kept.err
    plan = shop.ok("plan.get", feature_id="receipt")["plan"]
    assert (plan["files"]["modify"], plan["files"]["create"]) == ([], ["shop/receipt.py", "tests/test_receipt.py"])
    with shop.app.record.read() as view:
        question = view.get(Question, "q1")
    assert question is not None
    assert (question.feature_id, question.answer, question.answered_by) == (
        "gift_wrap",
        "150 cents for each order.",
        "person:demo",
    )


def verdict_in(payload: Any) -> str:
    return f"{payload['mode']} {payload['verdict']}" if "verdict" in payload else ""


def test_the_log_of_the_failed_gate_shows_the_real_failure_of_the_real_test(shop: World) -> None:
    logs = (shop.root / "agentic/features" / FEATURE / "logs").glob("*.log")
    failed = [log.read_text() for log in logs if "FAILED" in log.read_text()]
    assert len(failed) == 1
    assert "test_ten_pieces_cost_a_tenth_less" in failed[0]
    assert "AssertionError: 1450 != 1350" in failed[0]


def test_the_checkout_was_left_alone_and_a_person_is_told_how_to_follow(kept: Ran, shop: World) -> None:
    assert git(shop.root, "diff", "--stat", f"main~{len(FEATURES)}") == ""
    assert git(shop.root, "ls-files", "--others", "--exclude-standard") == ""
    assert re.findall(r"update it with `(.*)`", kept.err)[-1] == "aop sync"
    assert run_aop(shop.root, "sync").code == 0
    assert git(shop.root, "status", "--porcelain") == ""


def test_what_happens_is_told_while_it_happens_with_the_time(kept: Ran) -> None:
    timed = [line for line in kept.err.splitlines() if re.match(r" *\d+\.\d\d s  ", line)]
    told = [line.partition(" s  ")[2] for line in timed]
    assert told[0] == f"made a small shop with 5 specs: {kept.json['data']['repository']}"
    for word in ("the log says: AssertionError: 1450 != 1350", "In real use, you", "the demo approves for you"):
        assert any(word in line for line in told)


def test_without_keep_nothing_is_left_and_a_person_is_told_what_to_try(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", env={"TMPDIR": str(tmp_path)}, seconds=SECONDS)
    assert ran.code == 0, ran.err
    assert list(tmp_path.iterdir()) == []
    assert "The repository was removed" in ran.err
    assert f"Merge feature {FEATURE}" in ran.out
    assert re.findall(r"^  (aop [a-z]+)", ran.out, re.MULTILINE) == ["aop demo", "aop demo", "aop init", "aop fix"]


def test_the_demo_needs_no_git_settings_and_no_home(tmp_path: Path) -> None:
    strange = tmp_path / "gitconfig"
    strange.write_text("[commit]\n  gpgsign = true\n[init]\n  defaultBranch = trunk\n[core]\n  hooksPath = /nowhere\n")
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path / "absent"), "GIT_CONFIG_GLOBAL": str(strange)}
    ran = run_aop(tmp_path, "demo", "--json", env=env, seconds=SECONDS)
    assert (ran.code, ran.json["ok"]) == (0, True), ran.err


def test_a_demo_that_is_interrupted_removes_its_folder(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background may ignore it
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", "demo"],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stderr is not None
        assert "a small shop" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=300)
    assert (process.returncode, err.splitlines()[-2]) == (130, "aop: Stopped. [interrupted]")
    assert list(tmp_path.iterdir()) == []


def test_a_demo_whose_gates_cannot_pass_says_so_and_does_not_exit_with_0(tmp_path: Path) -> None:
    base, environment, folder = tmp_path / "base", tmp_path / "environment", tmp_path / "tmp"
    programs = base / "bin"
    for made in (programs, environment / "bin", folder):
        made.mkdir(parents=True)
    # The demo's gates run the Python that AOP's environment was made from.
    (base / "lib").symlink_to(Path(sys.base_prefix, "lib"))
    (environment / "pyvenv.cfg").write_text(f"home = {programs}\n")
    (environment / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (programs / "python3").write_text("#!/bin/sh\necho SomeError: not today\nexit 1\n")
    (programs / "python3").chmod(0o755)
    ran = subprocess.run(
        [environment / "bin" / "python", "-m", "aop.cli.main", "demo", "--json"],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    answer = json.loads(ran.stdout)
    assert (ran.returncode, answer["ok"], answer["error"]["code"]) == (1, False, "replay_diverged"), ran.stderr
    assert "the log says: SomeError: not today" in ran.stderr
    assert list(folder.iterdir()) == []
