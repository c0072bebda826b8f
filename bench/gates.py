"""Gate runs next to the bare process and the bare sandbox, and the memory that a talkative step costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

from aop.adapters.processes.sandbox.bubblewrap import installed_bubblewraps
from bench.effort import Effort
from bench.measurements import Budget, Measurement, Skipped, in_turns
from bench.scenes import Scene, source_file

SANDBOX = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


def gates_run(effort: Effort) -> Iterator[Measurement | Skipped]:
    """Measure `gates.run` of a step that does nothing, without and with the sandbox."""
    for files in effort.files:
        with closing(Scene(effort.folder / str(files), files=files)) as scene:
            scene.begin("gated", source_file(0))
            yield _measured(scene, f"gates.run, {files} files", ("true",), 8.0, effort)
            if scene.app.gateway.kernel.processes.sandbox_level("auto") != "bubblewrap":
                yield Skipped("The rows of the sandbox: bubblewrap does not work on this machine.")
                continue
            scene.set_sandbox("require")
            bubblewrap = installed_bubblewraps(os.get_exec_path())[0]
            floor = (bubblewrap, *SANDBOX, "true")
            yield _measured(scene, f"gates.run in the sandbox, {files} files", floor, 18.0, effort)


def _measured(scene: Scene, name: str, floor: tuple[str, ...], limit: float, effort: Effort) -> Measurement:
    took, least = in_turns(
        lambda _: scene.call("gates.run", feature_id="gated", mode="fast", force=True),
        lambda _: subprocess.run(floor, check=True, capture_output=True),
        turns=effort.turns,
    )
    return Measurement(
        name=name,
        ours=took,
        floor=least,
        floor_name="bwrap true" if len(floor) > 1 else "true",
        budget=Budget("over", limit),
    )


def flood(effort: Effort) -> Iterator[Measurement]:
    """Measure by how much the memory of a process grows while one of its gate steps prints without end."""
    with closing(Scene(effort.folder, files=20, flood_bytes=effort.flood_bytes)) as scene:
        scene.begin("flooded", source_file(0))
    grown = subprocess.run(
        [sys.executable, "-m", "bench.flooded", str(scene.root)], check=True, capture_output=True, text=True
    ).stdout
    yield Measurement(
        name=f"memory for {effort.flood_bytes / 1024**2:g} MiB of gate output",
        unit="MB",
        ours=float(grown),
        budget=Budget("at most", 20.0),
    )
