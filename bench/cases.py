"""The cases, each of which runs in a process of its own: one that fails takes nothing else with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, cast

import msgspec
from msgspec import Struct

from bench.effort import Case, Effort, full, quick
from bench.measurements import Failed, Measurement, Outcome, Skipped

CASES: Mapping[str, str] = {
    "startup": "bench.startup:startup",
    "init": "bench.startup:init",
    "report.dashboard": "bench.records:dashboard",
    "plan.submit": "bench.records:plan_submit",
    "collisions.scan": "bench.collisions:scan",
    "feature.init": "bench.features:feature_init",
    "repo.apply_patch": "bench.features:apply_patch",
    "repo.rebase_onto_main": "bench.features:rebase",
    "repo.sync": "bench.features:sync",
    "gates.run": "bench.gates:gates_run",
    "history": "bench.records:history",
    "record.postgres": "bench.databases:databases",
    "planning": "bench.records:planning",
    "worker": "bench.idle:idle_worker",
    "mcp": "bench.mcp:mcp",
    "forge": "bench.forge:forge",
    "forge.errors": "bench.builds:build_errors",
    "forge.turns": "bench.builds:build_turns",
    "forge.scan": "bench.scans:deep_scan",
    "write_file": "bench.builds:write_file",
    "throughput": "bench.throughput:throughput",
    "run": "bench.runs:run",
    "agents": "bench.agents:agents",
    "flood": "bench.gates:flood",
    "tickets": "bench.tickets:tickets",
    "watch": "bench.idle:watch",
    "pages": "bench.pages:pages",
    "pages.windows": "bench.pages:page_windows",
    "fleet.simulated": "bench.simulate:simulation",
}
"""The function of each case. It is imported by the process of its case alone."""

LAST_LINES = 20
"""How much of what a failed case printed is shown."""
STOP_SECONDS = 20.0


class _Line(Struct, frozen=True, omit_defaults=True):
    """What the process of a case tells, on a line of its own."""

    measurement: Measurement | None = None
    skipped: Skipped | None = None


# --- in the process of the case --------------------------------------------------------------------


def run_case_here(name: str, folder: Path, *, is_quick: bool) -> int:
    """Run one case, and print each outcome as soon as it is known."""
    # With an exception, so that servers and databases of the case are stopped.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    threading.Thread(target=_end_with_starter, args=(os.dup(0),), daemon=True).start()
    # Programs that are started here get neither of the two pipes; what they print must not come between the lines.
    lines = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    case: Case = resolve_name(CASES.get(name, name))
    for outcome in case(_effort(folder, is_quick=is_quick)):
        line = _Line(measurement=outcome) if isinstance(outcome, Measurement) else _Line(skipped=outcome)
        lines.write(msgspec.json.encode(line) + b"\n")
    return 0


def _end_with_starter(pipe: int) -> None:
    """Wait until the process that started this one is gone, however it ended, and end too."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _effort(folder: Path, *, is_quick: bool) -> Effort:
    return (quick if is_quick else full)(folder)


# --- in the process that starts them ---------------------------------------------------------------


def run_case(name: str, *, is_quick: bool) -> Iterator[Outcome]:
    """Run one case in a process of its own, with all that it starts; yield each outcome as it comes."""
    with tempfile.TemporaryDirectory(prefix="aop-bench-", ignore_cleanup_errors=True) as folder:
        scene, printed = Path(folder) / "scene", Path(folder) / "printed"
        words = [sys.executable, "-m", "bench", "--case", name, "--scene", str(scene), *["--quick"] * is_quick]
        longest = _effort(scene, is_quick=is_quick).longest_seconds
        began = time.monotonic()
        with (
            printed.open("wb") as stderr,
            subprocess.Popen(
                words,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            ) as child,
        ):
            limit = threading.Timer(longest, _stop, (child,))
            limit.start()
            try:
                for line in cast("IO[bytes]", child.stdout):
                    told = msgspec.json.decode(line, type=_Line)
                    if (outcome := told.measurement or told.skipped) is not None:
                        yield outcome
                code = child.wait()
            finally:
                limit.cancel()
                _stop(child)
        if code:
            late = f" It was stopped after {longest:g} s." if time.monotonic() - began >= longest else ""
            yield Failed(f"It ended with exit code {code}.{late}\n{_last_lines(printed)}")


def _environment() -> Mapping[str, str]:
    # An installed AOP has its byte code beside it; without it, the compiler would be measured.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a case, first with a signal that lets it clean up, and then whatever it has left."""
    if child.poll() is None:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_lines(printed: Path) -> str:
    text = printed.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-LAST_LINES:])
