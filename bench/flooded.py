"""A process of its own that runs the flood gate, and prints by how many megabytes its memory grew at most."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aop.wiring.build import Settings, build
from bench.peak_memory import peak_megabytes


def grown_by_flood(root: Path) -> float:
    """Run a quiet gate, so that everything is loaded, and then the flood."""
    app = build(root, Settings.from_env(os.environ))
    peaks = []
    for mode in ("fast", "full"):
        answer = app.gateway.call(app.person, "gates.run", {"feature_id": "flooded", "mode": mode})
        if not answer.ok:
            raise RuntimeError(f"gates.run was refused: {answer.error}")
        peaks.append(peak_megabytes())
    app.close()
    return peaks[1] - peaks[0]


if __name__ == "__main__":
    print(grown_by_flood(Path(sys.argv[1])))
