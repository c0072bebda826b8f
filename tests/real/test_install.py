"""AOP as a tool: installed from a fresh clone by pip, pipx and uv, it plays its demo, and its gates see none of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.run.test_own_environment import GATES, LOOK, PLAIN, seen_by_the_person
from tests.world import FILES, git, make_repository

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.base_prefix}/bin/python3"
SECONDS = 900


def ran(words: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """Run a command that must succeed; return what it printed."""
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def with_pip(clone: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Install the wheel into an empty environment."""
    wheels = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(home / "wheel")]
    ran([sys.executable, *wheels], clone, env)
    (wheel,) = (home / "wheel").iterdir()
    ran([PYTHON, "-m", "venv", str(home / "env")], home, env)
    ran([f"{home}/env/bin/python", "-m", "pip", "install", "-q", str(wheel)], home, env)
    return home / "env/bin/aop"


def with_pipx(clone: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Install the clone with pipx, which comes from PyPI."""
    ran([PYTHON, "-m", "venv", str(home / "pipx")], home, env)
    ran([f"{home}/pipx/bin/python", "-m", "pip", "install", "-q", "pipx"], home, env)
    ran([f"{home}/pipx/bin/pipx", "install", "--python", PYTHON, "."], clone, env)
    return home / ".local/bin/aop"


def with_uv(clone: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Install the clone with uv."""
    ran([f"{sys.prefix}/bin/uv", "tool", "install", "-q", "--python", PYTHON, "."], clone, env)
    return home / ".local/bin/aop"


@pytest.mark.parametrize("install", [with_pip, with_pipx, with_uv])
def test_an_installed_aop_plays_its_demo_and_its_gates_do_not_see_it(
    install: Callable[[Path, Path, Mapping[str, str]], Path], tmp_path: Path
) -> None:
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    git(tmp_path, "clone", "-q", str(ROOT), str(clone))
    network = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "UV_", "http"))}
    env = {**network, "HOME": str(home), "PATH": PLAIN, "LANG": "C.UTF-8"}
    aop = install(clone, home, env)
    assert ran([str(aop), "--version"], home, env).startswith("aop ")
    assert "`main` is now" in ran([str(aop), "demo"], home, env)

    files = {"look.py": f"{LOOK}print(look())\n", "agentic/orchestrator/gates.yaml": GATES}
    root = make_repository(tmp_path / "repo", {**FILES, **files})
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(aop)))
    started = {**env, "PATH": f"{prefix}/bin:{aop.parent}:{PLAIN}", "VIRTUAL_ENV": prefix}
    assert f"AOP runs in {prefix}, which gates and agents do not see" in ran(
        [str(aop), "doctor", "--gates"], root, started
    )
    seen = seen_by_the_person(root / "look.py")
    expected = seen if aop.parent == Path(prefix, "bin") else {**seen, "PATH": f"{aop.parent}:{PLAIN}"}
    logs = list((root / ".aop/doctor").iterdir())
    assert [json.loads(log.read_text()) for log in logs] == [expected] * len(logs)
    assert logs
