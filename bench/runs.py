"""`aop run` from its start to the last feature that is ready to merge, next to the bare agents and gates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from bench import peak_memory
from bench.effort import Effort
from bench.measurements import Budget, Measurement
from bench.scenes import Scene

SLOTS = 5
GATE_SLOTS = 2
GATE = ("true",)
LONGEST_MS = {5: 8000.0}
"""Our own figure for five features whose agents take a second for each of two turns."""
MOST_MEMORY_MB = 300.0
AGENT = """\
import json, sys, time

given = json.load(sys.stdin)
time.sleep(%s)
feature = given["feature_id"]
path = f"new/{feature}.txt"
if given["role"] == "planner":
    print(json.dumps({"type": "PLAN_SUBMISSION", "plan": {
        "feature_id": feature, "plan_version": 1, "summary": "Write a new file", "base_ref": "main",
        "allowed_areas": ["new"], "forbidden_areas": [], "files": {"create": [path], "modify": [], "delete": []},
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["It is there"], "gate_profile": "default"}}))
else:
    print(json.dumps({"type": "PATCH", "unified_diff": f"--- /dev/null\\n+++ b/{path}\\n@@ -0,0 +1 @@\\n+new\\n"}))
"""


class _Ran(Struct, frozen=True):
    milliseconds: float
    megabytes: float
    """The most memory that the supervisor had at a time."""


def run(effort: Effort) -> Iterator[Measurement]:
    """Measure whole runs; each feature takes two turns of an agent and two runs of the gates."""
    for count in effort.features_run:
        folder = effort.folder / str(count)
        agent = _agent(folder, effort.agent_turn_seconds)
        ours, floor = _run(folder, agent, count), _floor(agent, count)
        limit = LONGEST_MS.get(count)
        yield Measurement(
            name=f"aop run, {count} features, {SLOTS} slots",
            ours=ours.milliseconds,
            floor=floor,
            floor_name="the agents and gates alone",
            budget=None if limit is None else Budget("at most", limit),
        )
        yield Measurement(
            name=f"memory of aop run, {count} features",
            unit="MB",
            ours=ours.megabytes,
            budget=Budget("at most", MOST_MEMORY_MB),
        )


def _agent(folder: Path, seconds: float) -> tuple[str, str]:
    folder.mkdir(parents=True)
    script = folder / "agent.py"
    script.write_text(AGENT % seconds)
    return sys.executable, str(script)


def _run(folder: Path, agent: tuple[str, str], count: int) -> _Ran:
    scene = Scene(folder / "repository", files=20)
    scene.set_sandbox("auto")
    scene.close()
    specs = folder / "specs"
    specs.mkdir()
    for number in range(count):
        (specs / f"feature_{number:02}.md").write_text("Write a new file.\n")
    peak = folder / "peak"
    # Without the folder of the script on the path, where modules have names such as `mcp`.
    words = [sys.executable, "-P", peak_memory.__file__, str(peak), "run", "-fl", str(specs)]
    began = time.perf_counter()
    subprocess.run(
        [*words, "--agent-provider", "custom", "--wait", "--max-active", str(SLOTS)],
        cwd=scene.root,
        env={**os.environ, "AOP_CUSTOM_AGENT": " ".join(agent)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return _Ran((time.perf_counter() - began) * 1000, float(peak.read_text()))


def _floor(agent: tuple[str, str], count: int) -> float:
    """Return the milliseconds that the same agents and gates take alone, on as many slots."""
    gates = threading.Semaphore(GATE_SLOTS)

    def life(number: int) -> None:
        for role in ("planner", "builder"):
            asked = json.dumps({"role": role, "feature_id": f"feature_{number}"}).encode()
            subprocess.run(agent, input=asked, check=True, capture_output=True)
        for _mode in ("fast", "full"):
            with gates:
                subprocess.run(GATE, check=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as slots:
        tuple(slots.map(life, range(count)))
    return (time.perf_counter() - began) * 1000
