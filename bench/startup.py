"""How long `aop` takes from the shell's point of view: next to a Python that does nothing, and to begin."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, after_each, in_turns
from bench.scenes import Scene, make_repository, source_file

PROJECT = {
    "pyproject.toml": '[project]\nname = "a"\nversion = "1"\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
    "a/__init__.py": "",
    "tests/test_a.py": "def test_a() -> None:\n    assert True\n",
    "web/package.json": '{"name": "web", "version": "1.0.0", "scripts": {"test": "node --test", "lint": "eslint ."}}\n',
    "web/package-lock.json": '{"name": "web", "lockfileVersion": 3, "packages": {}}\n',
}
"""A project in two languages."""


def startup(effort: Effort) -> Iterator[Measurement]:
    """Measure the commands that people type without thinking."""
    scene = Scene(effort.folder, files=20)
    scene.place([f"placed_{number}" for number in range(effort.features_listed)], planned=True)
    scene.close()
    aop, python = str(Path(sys.executable).with_name("aop")), sys.executable
    commands = {"aop --help": 5.0, f"aop status, {effort.features_listed} features": 5.0}
    for name, times in commands.items():
        words = name.partition(",")[0].split()[1:]
        ours, floor = in_turns(
            _run(scene.root, aop, *words), _run(scene.root, python, "-I", "-c", "pass"), turns=effort.turns
        )
        yield Measurement(
            name=name, ours=ours, floor=floor, floor_name="python -I -c pass", budget=Budget("times", times)
        )


def init(effort: Effort) -> Iterator[Measurement]:
    """Measure `aop init --no-run` in a repository that has not been initialised, with gates to guess."""
    files = effort.files[-1]
    root = effort.folder / "new"
    make_repository(root, {**PROJECT, **{source_file(number): "text\n" for number in range(files - len(PROJECT))}})
    aop = str(Path(sys.executable).with_name("aop"))
    took = after_each(
        lambda _turn: _forget_init(root), _run(root, aop, "init", "--no-run", "--yes"), turns=effort.slow_turns
    )
    yield Measurement(name=f"aop init --no-run, {files} files", ours=took, budget=Budget("at most", 1000.0))


def _forget_init(root: Path) -> None:
    for made in ("agentic", ".aop"):
        shutil.rmtree(root / made, ignore_errors=True)


def _run(folder: Path, *argv: str) -> Act:
    return lambda _: subprocess.run(argv, cwd=folder, capture_output=True, check=True)
