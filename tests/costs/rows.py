"""The calls that are counted: how each one's repository is prepared, and how it is called."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import FeatureId, RunId
from aop.core.roles import Role
from aop.supervisor.board import Board
from aop.supervisor.feature_run import FeatureRuns
from aop.supervisor.policy.state import AskWorker
from aop.supervisor.providers import ProviderPreference
from aop.supervisor.turns import Turn, plain
from aop.wiring.agents import agent_staff
from aop.wiring.supervision import plan_run
from bench.scenes import Scene
from tests.costs import watched
from tests.world import World, make_repository, plan_for

GATES = """\
version: 1
profiles:
  default:
    modes:
      fast: [{name: nothing, cmd: ["true"]}]
      full: [{name: nothing, cmd: ["true"]}]
      merge: [{name: nothing, cmd: ["true"]}]
"""
NOTE = '{"type": "NOTE", "note": "Counted"}'
AGENT = f"#!/bin/sh\necho '{NOTE}'\n"
"""An agent that answers without a look at its input: it costs one process."""
FEATURE = "one"
FEATURES = 200
WARM_CALLS = 2

Act: TypeAlias = Callable[[int], object]
"""Makes the call; it gets the number of the call, from 0."""


class Noted(Struct, kw_only=True):
    """The statements and modules of a call, which its system calls do not tell."""

    statements: list[str]
    modules: list[str]


class Row(Struct, frozen=True, kw_only=True):
    """One call that is counted."""

    prepare: Callable[[Path, Mapping[str, str]], None]
    """Makes the repository, in a folder and with the variables that name a database, if it uses one."""
    opened: Callable[[Path, Noted], AbstractContextManager[Act]]
    """Opens it in the process that makes the calls."""
    on_postgres: bool = False


# --- repositories --------------------------------------------------------------------------------


def repository(then: Callable[[World], None], *, sandbox: str = "off") -> Callable[[Path, Mapping[str, str]], None]:
    """Return what makes a repository whose gates and agents run in a sandbox or without one."""

    def prepare(folder: Path, database: Mapping[str, str]) -> None:
        with closing(World(_begun(folder / "repo", sandbox), database)) as world:
            then(world)

    return prepare


def _begun(root: Path, sandbox: str = "off") -> Path:
    files = {
        "agentic/orchestrator/gates.yaml": GATES,
        "agentic/orchestrator/policy.yaml": f"version: 1\nexecution: {{sandbox: {sandbox}}}\n",
        "agent.sh": AGENT,
        "src/a.txt": _text(0),
    }
    return make_repository(root, files)


def _new_features(world: World) -> None:
    for number in range(WARM_CALLS + 1):
        world.init(f"new_{number}")


def _patched(world: World) -> None:
    world.plan(FEATURE)
    patch(world)(0)


def _many_features(folder: Path, _database: Mapping[str, str]) -> None:
    with closing(Scene(folder / "repo", files=20)) as scene:
        scene.place([f"placed_{number}" for number in range(FEATURES)], planned=True)


def _approved_features(folder: Path, _database: Mapping[str, str]) -> None:
    """Make a repository for each call: what was approved in one is outdated after its merge."""
    for number in range(WARM_CALLS + 1):
        with closing(World(_begun(folder / f"repo_{number}"))) as world:
            _patched(world)
            for mode in ("fast", "full"):
                world.ok("gates.run", feature_id=FEATURE, mode=mode)
            (folder / f"token_{number}").write_text(world.approval(FEATURE))


# --- tools, called in this process -----------------------------------------------------------------


def in_process(act_on: Callable[[World], Act]) -> Callable[[Path, Noted], AbstractContextManager[Act]]:
    """Return what opens the repository here, for calls of its gateway."""

    @contextmanager
    def opened(folder: Path, noted: Noted) -> Iterator[Act]:
        watched.watch_statements(noted.statements)
        with closing(World(folder / "repo")) as world:
            yield act_on(world)

    return opened


def tool(name: str, **arguments: Any) -> Callable[[World], Act]:
    """Return the call of a tool on one feature, always with the same arguments."""
    return lambda world: lambda _number: world.ok(name, feature_id=FEATURE, **arguments)


def submit(world: World) -> Act:
    """Submit the first plan of another feature at each call."""

    def act(number: int) -> object:
        name = f"new_{number}"
        files = {"create": [f"src/{name}.txt"], "modify": [], "delete": []}
        return world.ok("plan.submit", feature_id=name, plan_json=plan_for(name, files=files))

    return act


def patch(world: World) -> Act:
    """Change the same line at each call."""

    def act(number: int) -> object:
        removed, added = (f"{mark}{line}\n" for mark, line in (("-", _line(number)), ("+", _line(number + 1))))
        diff = f"--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n first\n{removed}{added} last\n"
        return world.ok("repo.apply_patch", role=Role.BUILDER, feature_id=FEATURE, unified_diff=diff)

    return act


def _text(version: int) -> str:
    return f"first\n{_line(version)}\nlast\n"


def _line(version: int) -> str:
    return f"version {version}"


# --- a turn of an agent ----------------------------------------------------------------------------


@contextmanager
def turn(folder: Path, noted: Noted) -> Iterator[Act]:
    """Let a builder take a turn as `aop run` does; the engine, which polls by the clock, is not counted."""
    watched.watch_statements(noted.statements)
    root = folder / "repo"
    agent = {"AOP_AGENT_PROVIDER": "custom", "AOP_CUSTOM_AGENT": f"/bin/sh {root / 'agent.sh'}"}
    with (
        closing(World(root, agent)) as world,
        ThreadPoolExecutor(1) as thread,
        closing(asyncio.new_event_loop()) as loop,
    ):
        # One thread: a second one would open the record again, or not, as it comes.
        loop.set_default_executor(thread)
        plan = plan_run(world.app, ProviderPreference())
        staff = agent_staff(world.app, plan.choices)
        runs = FeatureRuns(world.app.gateway, staff, Board(), plan.limits, lambda _feature, _line: None)
        take_turn: Any = runs.kinds()["turn"].pipeline
        ask = AskWorker(role=Role.BUILDER, instructions="Say something.", results=())
        payload = Turn(feature_id=FeatureId(FEATURE), ask=ask, run_name="run-1")

        def act(number: int) -> object:
            answer = loop.run_until_complete(take_turn(_Steps(number), plain(payload)))
            if "Counted" not in str(answer):
                raise AssertionError(answer)
            return answer

        yield act


class _Steps:
    """Implements `aop.core.run.Steps`: does each step, and keeps nothing."""

    def __init__(self, number: int) -> None:
        self.run_id = RunId(f"f.{FEATURE}.{number}")

    async def step(self, _name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        return await do()


# --- commands ----------------------------------------------------------------------------------------


def command(*words: str) -> Callable[[Path, Noted], AbstractContextManager[Act]]:
    """Return what runs `aop` in a process of its own."""

    @contextmanager
    def opened(folder: Path, noted: Noted) -> Iterator[Act]:
        yield lambda _number: _run_aop(folder / "repo", words, noted)

    return opened


@contextmanager
def merge(folder: Path, noted: Noted) -> Iterator[Act]:
    """Merge the feature of another repository at each call."""

    def act(number: int) -> None:
        token = (folder / f"token_{number}").read_text()
        _run_aop(folder / f"repo_{number}", ("merge", FEATURE, "--token", token), noted)

    yield act


def _run_aop(root: Path, words: tuple[str, ...], noted: Noted) -> None:
    report = os.memfd_create("costs")
    try:
        subprocess.run(
            [sys.executable, str(watched.__file__), str(report), *words],
            cwd=root,
            pass_fds=[report],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        lines = os.pread(report, os.fstat(report).st_size, 0).decode().splitlines()
    finally:
        os.close(report)
    noted.statements += [line.removeprefix("statement ") for line in lines if line.startswith("statement ")]
    noted.modules += [line.removeprefix("module ") for line in lines if line.startswith("module ")]


_STATE_GET = in_process(tool("feature.state_get"))
_LOG_APPEND = in_process(tool("feature.log_append", note="Counted"))
_GATES_RUN = in_process(tool("gates.run", mode="fast", force=True))

ROWS = {
    "aop --help": Row(prepare=repository(lambda _world: None), opened=command("--help")),
    f"aop status, {FEATURES} features": Row(prepare=_many_features, opened=command("status")),
    "aop merge": Row(prepare=_approved_features, opened=merge),
    "feature.state_get": Row(prepare=repository(World.init), opened=_STATE_GET),
    "feature.log_append": Row(prepare=repository(World.init), opened=_LOG_APPEND),
    "plan.submit": Row(prepare=repository(_new_features), opened=in_process(submit)),
    "repo.apply_patch": Row(prepare=repository(World.plan), opened=in_process(patch)),
    "gates.run": Row(prepare=repository(_patched), opened=_GATES_RUN),
    "gates.run sandboxed": Row(prepare=repository(_patched, sandbox="require"), opened=_GATES_RUN),
    "a turn of aop run": Row(prepare=repository(_patched), opened=turn),
    "feature.state_get on PostgreSQL": Row(prepare=repository(World.init), opened=_STATE_GET, on_postgres=True),
    "feature.log_append on PostgreSQL": Row(prepare=repository(World.init), opened=_LOG_APPEND, on_postgres=True),
    "plan.submit on PostgreSQL": Row(prepare=repository(_new_features), opened=in_process(submit), on_postgres=True),
}
