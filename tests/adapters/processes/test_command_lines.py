"""Programs and PATH of a step, where AOP's own folders are hidden from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.processes.runner import LocalProcesses
from aop.kernel.ports.processes import CommandResult
from tests.adapters.processes.steps import Steps


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A folder of AOP's own with a program `mine`, and another `sh` than the system's."""
    folder = tmp_path / "own" / "bin"
    folder.mkdir(parents=True)
    for name in ("mine", "sh"):
        (folder / name).write_text("#!/bin/sh\necho $PATH\n")
        (folder / name).chmod(0o755)
    return str(folder)


def with_hidden(folder: Path, own: str, *argv: str, **fields: Any) -> tuple[CommandResult, str]:
    """Run a command of a shell that has AOP's own folder first on its PATH."""
    steps = Steps(folder, "none", environ={"PATH": f"{own}:/usr/bin:/bin"}, hidden=(os.path.dirname(own),))
    return steps.run(*argv, **fields)


def test_a_program_in_a_hidden_folder_is_not_found_by_its_name(tmp_path: Path, own: str) -> None:
    ended, _ = with_hidden(tmp_path, own, "mine")
    assert ended.problem == "There is no program `mine` on the PATH `/usr/bin:/bin`."


@pytest.mark.parametrize("env", [(), (("PATH", "OWN:/usr/bin:/bin"),)], ids=["of the shell", "of the command"])
def test_a_program_that_is_named_with_its_hidden_folder_runs_and_does_not_see_it(
    tmp_path: Path, own: str, env: tuple[tuple[str, str], ...]
) -> None:
    named = tuple((name, value.replace("OWN", own)) for name, value in env)
    ended, log = with_hidden(tmp_path, own, f"{own}/mine", env=named)
    assert (ended.exit_code, log) == (0, "/usr/bin:/bin\n")


def test_a_verdict_is_bound_to_the_programs_outside_of_hidden_folders(tmp_path: Path, own: str) -> None:
    def identity(path: str, *programs: str, hidden: tuple[str, ...] = ()) -> str:
        private = tmp_path / "private"
        return LocalProcesses({"PATH": path}, str, private_root=private, hidden=hidden).identity("off", programs)

    plain, both, hidden = "/usr/bin:/bin", f"{own}:/usr/bin:/bin", (os.path.dirname(own),)
    assert identity(both, "sh", hidden=hidden) == identity(plain, "sh") != identity(both, "sh")
    named = identity(plain, f"{own}/mine")
    Path(own, "mine").write_text("#!/bin/sh\n")
    assert identity(plain, f"{own}/mine") != named
