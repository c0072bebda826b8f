"""`python -m bench.appending ROOT FEATURE SECONDS`: one process that makes small changes; it prints how many."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path

from aop.wiring.build import Settings, build


def main(root: str, feature: str, seconds: float) -> None:
    """Say that it is ready, wait for a line, and call."""
    with closing(build(Path(root), Settings.from_env(os.environ))) as app:
        append = {"feature_id": feature, "note": "Measured"}
        app.gateway.call(app.person, "feature.log_append", append)
        print("ready", flush=True)
        sys.stdin.readline()
        count, deadline = 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not app.gateway.call(app.person, "feature.log_append", append).ok:
                raise RuntimeError("A call was refused.")
            count += 1
    print(count)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
