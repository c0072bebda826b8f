"""The stages of CI: what is green for the same inputs is not run again, and what fails is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = """
inputs = ["source", ".ci"]
versions = ["cat version 2> /dev/null"]

[[stage]]
name = "test"
run = "echo test$COVER >> ran; echo 3 passed"
every_time = true
measured_for = "covered"

[[stage]]
name = "covered"
run = "echo covered >> ran"

[[stage]]
name = "slow"
run = "echo slow-{part} >> ran; cat source > /dev/null; test ! -e broken"
parts = 2

[[stage]]
name = "window"
run = "echo window >> ran"
needs = ["no-such-program|neither-this"]

[[slice]]
name = "soak"
run = "echo soak-{part} >> ran; test ! -e broken-soak"
parts = 3
"""


class Project:
    """A repository with stages of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.cache = folder / "cache"
        (self.folder / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci/stages.py", self.folder / ".ci")
        (self.folder / ".ci/stages.toml").write_text(TABLE)
        self.git("init", "-q")
        self.commit("1")

    def git(self, *words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words], cwd=self.folder, check=True
        )

    def commit(self, source: str) -> None:
        (self.folder / "source").write_text(source)
        self.git("add", ".ci", "source")
        self.git("commit", "-q", "-m", source)

    def run(self, *words: str, code: int = 0, is_fresh: bool = False) -> tuple[list[str], str]:
        """Return the stages that ran, and what was printed."""
        ended = subprocess.run(
            [sys.executable, ".ci/stages.py", *(words or ("ci",))],
            cwd=self.folder,
            env={**os.environ, "COVER": "", "XDG_CACHE_HOME": str(self.cache), "CI_FRESH": "1" if is_fresh else ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        ran = self.folder / "ran"
        stages = ran.read_text().split() if ran.exists() else []
        ran.unlink(missing_ok=True)
        return stages, ended.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_first_run_measures_the_tests_and_runs_every_stage_and_one_slice(project: Project) -> None:
    ran, printed = project.run()
    assert ran == ["test1", "covered", "slow-1/2", "slow-2/2", "soak-1/3"]
    assert "Left out: window (no-such-program|neither-this missing)" in printed
    assert "3 passed" in printed


def test_what_was_green_is_not_repeated_but_the_tests_one_stage_and_the_oldest_slice(project: Project) -> None:
    project.run()
    ran, printed = project.run()
    assert ran == ["test", "slow-1/2", "soak-2/3"]
    assert "slow-2-of-2: green for these inputs since" in printed
    # Times are kept by the second, and the order of the table decides between equal ones.
    assert project.run()[0][-1] == "soak-3/3"


@pytest.mark.parametrize("change", ["commit", "version", "fresh"])
def test_every_stage_runs_again_for_other_inputs(project: Project, change: str) -> None:
    project.run()
    if change == "commit":
        project.commit("2")
    elif change == "version":
        (project.folder / "version").write_text("2")
    ran, _ = project.run(is_fresh=change == "fresh")
    assert [name for name in ran if not name.startswith("test")] == ["covered", "slow-1/2", "slow-2/2", "soak-2/3"]


def test_an_uncommitted_change_has_no_memory(project: Project) -> None:
    (project.folder / "source").write_text("changed")
    project.run()
    assert project.run()[0][:4] == ["test1", "covered", "slow-1/2", "slow-2/2"]


@pytest.mark.parametrize("broken", ["broken", "broken-soak"])
def test_a_stage_or_slice_that_fails_fails_the_run_and_is_not_green_afterwards(project: Project, broken: str) -> None:
    (project.folder / broken).touch()
    _, printed = project.run(code=1)
    assert "FAILED: " in printed
    (project.folder / broken).unlink()
    ran, _ = project.run()
    assert ("slow-1/2" in ran) if broken == "broken" else (ran[-1] == "soak-1/3")


def test_the_night_repeats_nothing_that_is_green_and_names_what_failed(project: Project) -> None:
    (project.folder / "broken-soak").touch()
    ran, printed = project.run("nightly", code=1)
    assert ran == ["soak-1/3", "soak-2/3", "soak-3/3"]
    assert "failed: soak-1-of-3, soak-2-of-3, soak-3-of-3" in printed
    (project.folder / "broken-soak").unlink()
    assert project.run("nightly")[0] == ["soak-1/3", "soak-2/3", "soak-3/3"]
    assert project.run("nightly")[0] == []


def test_one_stage_can_be_run_and_is_green_afterwards(project: Project) -> None:
    assert project.run("ci", "--only", "slow")[0] == ["slow-1/2", "slow-2/2"]
    assert project.run()[0] == ["test1", "covered", "slow-1/2", "soak-1/3"]


def test_the_list_says_what_is_green(project: Project) -> None:
    project.run()
    rows = {row["name"]: row for row in json.loads(project.run("list", "--json")[1])}
    assert rows["slow-1-of-2"]["green_for_these_inputs_since"]
    assert rows["soak-3-of-3"]["last_tried"] is None
    assert rows["window"]["missing"]
