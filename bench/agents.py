"""Five sessions of a real coding agent at once through `aop run`, next to the bare program with the same fake model."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from msgspec import Struct

from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.agents.vendors.programs import installed_program
from aop.kernel.config.agents import Provider
from bench.effort import Effort
from bench.measurements import Budget, Measurement, Skipped
from bench.scenes import Scene
from tests.real.fake_vendors import Asked, Call, fake_vendors

MOST_TURNS = 3
LONGEST_SECONDS = 240.0
KEY = "a-key-for-the-bench"
LARGEST_SHARE = 1.25
"""Ours over the bare program, for memory and start-up: our own figure."""
_MADE_FOR_TESTS = Path(__file__).parents[1] / ".real" / "node_modules" / ".bin"
_PROMPT = "You are the planner of the feature `feature_{number}`.\n"


class _Gathering:
    """A model that answers nobody before all have asked."""

    def __init__(self, sessions: int) -> None:
        self._sessions = sessions
        self._asked: set[str] = set()
        self._all = threading.Event()
        self._go_on = threading.Event()

    def says(self, asked: Asked) -> Call | str:
        self._asked |= set(re.findall(r"You are the planner of the feature `(\w+)`", asked.prompt))
        if len(self._asked) == self._sessions:
            self._all.set()
        self._go_on.wait(LONGEST_SECONDS)
        return "done"

    def wait(self) -> None:
        """Wait until all have asked."""
        if not self._all.wait(LONGEST_SECONDS):
            raise RuntimeError(f"Only {len(self._asked)} of {self._sessions} sessions asked their model.")

    def let_go(self) -> None:
        self._go_on.set()


class _Seen(Struct, frozen=True, kw_only=True):
    """What was seen at the moment when all sessions had asked their model."""

    start_ms: float
    """From the start of the first program to the first question of the last."""
    session_mb: float
    """For each session, with all that it started."""
    other_mb: float
    """AOP itself."""


def agents(effort: Effort) -> Iterator[Measurement | Skipped]:
    """Measure what a session costs more than the program alone."""
    program = _program()
    if program is None:
        yield Skipped("There is no `claude`. `make real` or `aop agents install claude` installs one.")
        return
    ours, bare, sessions = [], [], effort.agent_sessions
    for turn in range(min(MOST_TURNS, effort.slow_turns)):
        ours.append(_through_aop(effort.folder / f"ours-{turn}", program, sessions))
        bare.append(_bare(effort.folder / f"bare-{turn}", program, sessions))
    yield Measurement(
        name=f"start-up of {sessions} claude at once",
        ours=median(seen.start_ms for seen in ours),
        floor=median(seen.start_ms for seen in bare),
        floor_name="claude alone",
        budget=Budget("times", LARGEST_SHARE),
    )
    yield Measurement(
        name=f"memory of a claude, {sessions} at once",
        unit="MB",
        ours=median(seen.session_mb for seen in ours),
        floor=median(seen.session_mb for seen in bare),
        floor_name="claude alone",
        budget=Budget("times", LARGEST_SHARE),
    )
    yield Measurement(
        name=f"memory of aop run beside {sessions} claude", unit="MB", ours=median(seen.other_mb for seen in ours)
    )


def _program() -> str | None:
    known = installed_program(vendors_of(None, os.environ)[Provider.CLAUDE], os.environ)
    return known or shutil.which("claude", path=str(_MADE_FOR_TESTS))


def _through_aop(folder: Path, program: str, sessions: int) -> _Seen:
    scene = Scene(folder / "repository", files=20)
    scene.set_sandbox("auto")
    scene.close()
    specs = folder / "specs"
    specs.mkdir()
    for number in range(sessions):
        (specs / f"feature_{number}.md").write_text("Write a new file.\n")
    words = [str(Path(sys.executable).with_name("aop")), "run", "-fl", str(specs), "--agent-provider", "claude"]
    words += ["--agent-model", "a-model", "--wait", "--max-active", str(sessions)]
    gathering = _Gathering(sessions)
    with fake_vendors(gathering.says) as model:
        path = os.pathsep.join([os.path.dirname(program), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
        with _started([words], scene.root, env) as children:
            gathering.wait()
            seen = _seen([children[0].pid], sessions)
            children[0].send_signal(signal.SIGTERM)
            gathering.let_go()
    return seen


def _bare(folder: Path, program: str, sessions: int) -> _Seen:
    """Start as many programs as they come, each with a home of its own: they would wait for each other's settings."""
    folder.mkdir(parents=True)
    words = [program, "-p", "--output-format", "stream-json", "--verbose", "--setting-sources", ""]
    words += ["--strict-mcp-config", "--tools", "Read,Grep,Glob", "--permission-mode", "dontAsk", "--model", "a-model"]
    gathering = _Gathering(sessions)
    with fake_vendors(gathering.says) as model:
        env = {
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
        homes = [["/usr/bin/env", f"HOME={folder}/home-{number}"] for number in range(sessions)]
        with _started([[*home, *words] for home in homes], folder, env) as children:
            gathering.wait()
            seen = _seen([child.pid for child in children], sessions)
            gathering.let_go()
    return seen


@contextmanager
def _started(commands: list[list[str]], cwd: Path, env: Mapping[str, str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes, each with a prompt that nobody but the bare program reads; at the end they are gone."""
    children = []
    for number, command in enumerate(commands):
        prompt = cwd / f".prompt-{number}"
        prompt.write_text(_PROMPT.format(number=number))
        with prompt.open("rb") as stdin:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Linux divides a busy machine by sessions, and AOP gives each agent one of its own.
                start_new_session=True,
            )
            children.append(child)
    try:
        yield children
    finally:
        for child in children:
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


# --- what processes cost ---------------------------------------------------------------------------


def _seen(roots: list[int], count: int) -> _Seen:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    tree = tree_of(roots)
    programs = [pid for pid in tree if "claude" in os.path.basename(_command(pid).split("\0")[0])]
    sessions = tree_of(programs)
    return _Seen(
        start_ms=(now - min(map(_began, programs))) * 1000,
        session_mb=sum(map(megabytes, sessions)) / count,
        other_mb=sum(megabytes(pid) for pid in tree if pid not in sessions),
    )


def tree_of(roots: list[int]) -> list[int]:
    """Return processes and all that they started."""
    parents = {int(path.name): int(_stat(int(path.name))[1]) for path in Path("/proc").glob("[0-9]*") if _alive(path)}
    found = list(dict.fromkeys(roots))
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def _alive(path: Path) -> bool:
    return bool(_read(path / "stat"))


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, after its name."""
    return (_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2] or " ? 0").split()


def _began(pid: int) -> float:
    """Return when a process began, in seconds since the machine did."""
    return int(_stat(pid)[19]) / os.sysconf("SC_CLK_TCK")


def _command(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline"))


def megabytes(pid: int) -> float:
    """Return the memory of a process; what several share is divided among them."""
    found = re.search(r"^Pss:\s+(\d+) kB", _read(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
