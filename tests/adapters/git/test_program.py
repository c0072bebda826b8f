"""Running git: what it is handed, how it is ended, and what is said of it when it fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aop.adapters.git.process.program import GitDir, GitProgram
from aop.adapters.git.repository import open_repository
from aop.core.errors import Fault
from tests.adapters.git.repositories import ALICE, BASE, files_in, head, make_repository
from tests.adapters.storage.crowds import more_open_files_than_select_takes


def program_that(folder: Path, script: str) -> GitProgram:
    """Return a program that runs a script of our own in place of git."""
    return GitProgram({"PATH": str(made(folder, script)), "HOME": "/secret", "GIT_DIR": "/elsewhere"})


def made(folder: Path, script: str) -> Path:
    (folder / "bin").mkdir()
    (folder / "bin/git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/git").chmod(0o755)
    return folder / "bin"


def test_git_gets_no_variable_of_ours_and_only_its_own_settings(tmp_path: Path) -> None:
    ran = program_that(tmp_path, "/usr/bin/env").run(["status"], cwd=tmp_path, environment={"GIT_INDEX_FILE": "x"})
    given = dict(line.split("=", 1) for line in ran.out.decode().splitlines())
    assert {name for name in given if not name.startswith("GIT_")} - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        "LC_ALL",
        "PATH",
    }
    assert "GIT_DIR" not in given
    wanted = {
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_INDEX_FILE": "x",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    assert {name: given.get(name) for name in wanted} == wanted


def test_the_git_directory_and_the_work_tree_are_always_named(tmp_path: Path) -> None:
    program = program_that(tmp_path, 'printf "%s\\n" "$@"')
    git = GitDir(program, git_dir=Path("/g"), work_tree=tmp_path, environment={}, root=tmp_path)
    words = git.run("status", "--", "-x").out.decode().splitlines()
    assert words[-5:] == ["--git-dir=/g", f"--work-tree={tmp_path}", "status", "--", "-x"]
    settings = set(words[1:-5:2])
    assert settings >= {
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.protectHFS=true",
        "core.protectNTFS=true",
        "safe.bareRepository=explicit",
        "protocol.allow=never",
    }


@pytest.mark.parametrize("manners", ["trap ': > asked; exit 1' TERM", "trap '' TERM"], ids=["polite", "deaf"])
def test_a_git_that_hangs_is_ended(tmp_path: Path, manners: str) -> None:
    program = program_that(tmp_path, f"{manners}\n: > started\nwhile :; do /bin/sleep 0.1; done")
    with pytest.raises(Fault, match="`git gc` did not end within 5 seconds"):
        program.run(["--git-dir=x", "gc"], cwd=tmp_path, environment={}, seconds=5)
    assert (tmp_path / "started").exists()
    assert (tmp_path / "asked").exists() == ("asked" in manners)


def test_git_is_run_by_a_process_that_has_more_than_a_thousand_files_open(tmp_path: Path) -> None:
    program = program_that(tmp_path, "echo here")
    with more_open_files_than_select_takes():
        assert program.run(["status"], cwd=tmp_path, environment={}).out == b"here\n"


def test_a_failure_is_told_without_the_paths_of_this_machine(tmp_path: Path) -> None:
    program = program_that(tmp_path, f"echo 'fatal: {tmp_path}/src and {tmp_path} and \033[31m' >&2; exit 3")
    git = GitDir(program, git_dir=tmp_path / ".git", work_tree=tmp_path, environment={}, root=tmp_path)
    with pytest.raises(Fault) as fault:
        git.run("status")
    assert str(fault.value) == "`git status` ended with 3: fatal: src and . and ?[31m"


def test_a_lock_that_another_git_holds_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    repository.branches.create(ALICE, head(repository))
    counter = tmp_path / "counter"
    counter.write_text("")
    lock = "echo 'fatal: .git/config.lock' >&2; exit 128"
    busy = f'echo x >> {counter}; if [ "$(wc -l < {counter})" -lt 3 ]; then {lock}; fi'
    script = f'case "$*" in *"worktree add"*) {busy};; esac\nexec {shutil.which("git")} "$@"'
    environ = {"PATH": f"{made(tmp_path, script)}:{os.environ['PATH']}"}
    folder = open_repository(repository.root, environ).worktrees.ensure(ALICE, ALICE)
    assert (files_in(folder), counter.read_text()) == (BASE, "x\nx\nx\n")
