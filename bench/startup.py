"""How long `aop` takes from the shell's point of view, next to a Python that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, in_turns
from bench.scenes import Scene

FEATURES = 200


def startup(effort: Effort) -> Iterator[Measurement]:
    """Measure the commands that people type without thinking."""
    scene = Scene(effort.folder, files=20)
    scene.place([f"placed_{number}" for number in range(FEATURES)], planned=True)
    scene.close()
    aop, python = str(Path(sys.executable).with_name("aop")), sys.executable
    commands = {"aop --help": 5.0, f"aop status, {FEATURES} features": 6.0}
    for name, times in commands.items():
        words = name.partition(",")[0].split()[1:]
        ours, floor = in_turns(
            _run(scene.root, aop, *words), _run(scene.root, python, "-I", "-c", "pass"), turns=effort.turns
        )
        yield Measurement(
            name=name, ours=ours, floor=floor, floor_name="python -I -c pass", budget=Budget("times", times)
        )


def _run(folder: Path, *argv: str) -> Act:
    # An installed AOP has its byte code beside it; a shell that forbids writing any would measure the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return lambda _: subprocess.run(argv, cwd=folder, env=environment, capture_output=True, check=True)
