"""`aop forge generate` on a disk that is full: a named end, no half batch, and it goes on when there is space."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forge.generation.writers import ALL_TURNS, PROJECTS, WriterEndpoint, env_for, new_project, writing, written
from tests.world import run_aop

LIMITED = """
import resource, sys
from aop.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv[1:2] = []
sys.exit(main())
"""
RUNS = Path(".aop/forge/runs")


def generated(root: Path, server: WriterEndpoint, largest_file: int) -> tuple[int, Any, str]:
    """Generate where no file can grow beyond a size; return the exit code, the answer and what was said."""
    words = ["forge", "generate", PROJECTS["greenfield"], "--json"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(largest_file), *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "USER": "ada", **env_for("anthropic", server)},
    )
    return done.returncode, json.loads(done.stdout), done.stderr


# What measures coverage meets the full disk too, and says so with a traceback.
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "largest_file", [40_000, pytest.param(6_000, marks=pytest.mark.slow), pytest.param(80_000, marks=pytest.mark.slow)]
)
def test_a_full_disk_ends_a_generation_by_name_and_it_goes_on_when_there_is_space(
    largest_file: int, tmp_path: Path
) -> None:
    root = tmp_path / "repo"
    project = new_project("greenfield", root)
    with writing("anthropic", written("greenfield")) as server:
        code, answer, said = generated(root, server, largest_file)
        paid = len(server.asked)
        assert (code, answer["ok"], answer["error"]["code"]) == (6, False, "disk_full"), said
        assert "Traceback" not in said
        shown = run_aop(root, "forge", "show", project, "--json").json["data"]
        assert (shown["batch"], shown["contracts"]) == (0, [])
        assert all(file.read_bytes()[-2:] in (b"", b"}\n") for file in (root / RUNS).glob("*"))
        again = run_aop(root, "forge", "generate", project, "--json", env=env_for("anthropic", server))
    assert again.code == 0, again.err
    # At most the turn that could not be written down is asked for again.
    assert len(server.asked) - len(ALL_TURNS) <= 1
    assert set(server.asked) == set(ALL_TURNS)
    assert paid < len(ALL_TURNS)
    assert run_aop(root, "evidence", "verify").code == 0
