"""Build at the terminal: `aop forge build`, here or in the background."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.text.counts import count

if TYPE_CHECKING:
    from aop.core.errors import Json
    from aop.forge.builds.documents import BuildCycle
    from aop.wiring.build import App


def _declare_build(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument("--crew", choices=["solo"], default="solo", help="one builder does everything")
    parser.add_argument(
        "--model", metavar="MODEL", help="as `provider:model`; otherwise FORGE_LLM_MODEL_PRIORITY or AOP_MODELS says it"
    )
    parser.add_argument("--detach", action="store_true", help="build in the background")


def build(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Build a project from its contracts; the same command goes on with a build that was interrupted."""
    if not arguments.detach:
        with open_app(arguments) as app:
            return _work(app, arguments, terminal)
    from aop.adapters.machine.background import run_in_background
    from aop.wiring.forge.builds import BUILD_LOGS, ProjectBuild

    with open_app(arguments) as app, _refusals():
        build_id = ProjectBuild(app, app.person, arguments.project, arguments.crew, terminal.say).build_id
        folder = app.root / BUILD_LOGS
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return run_in_background(
        folder / f"{build_id}.log",
        lambda ready: _work_in_child(arguments, ready),
        lambda pid: _tell_start(build_id, pid, terminal),
    )


def _work_in_child(arguments: argparse.Namespace, ready: Callable[[], None]) -> int:
    terminal = Terminal(json=False)
    with open_app(arguments) as app:
        return _work(app, arguments, terminal, ready)


def _tell_start(build_id: str, pid: int, terminal: Terminal) -> int:
    message = f"Building {build_id} in the background (process {pid}). Follow with: aop forge log {build_id} --follow"
    return terminal.done({"build_id": build_id, "pid": pid}, message)


def _work(app: App, arguments: argparse.Namespace, terminal: Terminal, ready: Callable[[], None] = lambda: None) -> int:
    from aop.forge.builds.run.build_parts import BuildHeld
    from aop.wiring.build import build_brain
    from aop.wiring.forge.builds import ProjectBuild
    from aop.wiring.forge.generation import PRODUCT

    with _refusals():
        brain = build_brain(app.settings, chosen=arguments.model, product=PRODUCT)
        work = ProjectBuild(app, app.person, arguments.project, arguments.crew, terminal.say)
        try:
            seal = work.run(lambda _role: brain, ready)
        except BuildHeld as held:
            return _show(held.cycle, None, terminal)
        return _show(work.cycle(), seal, terminal)


@contextmanager
def _refusals() -> Iterator[None]:
    """Pass on what a tool refuses."""
    from aop.forge.generation.stored_steps import ToolRefused

    try:
        yield
    except ToolRefused as refused:
        raise CallRefused(refused.error, refused.evidence) from refused


def _show(cycle: BuildCycle, seal: Mapping[str, Any] | None, terminal: Terminal) -> int:
    facts, lines = _facts(cycle), [*_lines(cycle)]
    if seal is not None:
        facts["seal"] = {name: seal[name] for name in ("verdict", "score", "reasons")}
        lines += [f"{seal['verdict']}, {seal['score']:g} of 100", *(f"  {reason}" for reason in seal["reasons"])]
        lines.append(f"Look at it with: aop review {cycle.build_id}, aop forge verify {cycle.build_id}")
    return terminal.result(facts, "\n".join(lines), code=_exit(cycle, seal))


def _exit(cycle: BuildCycle, seal: Mapping[str, Any] | None) -> Exit:
    if seal is not None:
        return Exit.FAILED if seal["verdict"] == "FLAGGED" else Exit.OK
    return Exit.NEEDS_PERSON if cycle.hold == "stopped" else Exit.WAITING


def _facts(cycle: BuildCycle) -> dict[str, Json]:
    phases: list[Json] = [
        {
            "number": done.phase,
            "name": done.name,
            "sign_off": {"tree": done.tree, "gate_run_id": done.gate_run_id, "tests": done.tests},
        }
        for done in cycle.sign_offs
    ]
    return {
        "build_id": cycle.build_id,
        "project_id": cycle.project_id,
        "branch": cycle.branch,
        "head": cycle.head,
        "status": cycle.status,
        "phases": phases,
        "hold": cycle.hold,
        "hold_reason": cycle.hold_reason,
        "question_id": "" if cycle.stop is None else cycle.stop.question_id,
        "cost_usd": cycle.cost_usd,
    }


def _lines(cycle: BuildCycle) -> Iterator[str]:
    done, whole = len(cycle.sign_offs), count(len(cycle.phases), "phase")
    yield f"{cycle.build_id}: {done} of {whole} signed off on {cycle.branch}"
    for each in cycle.sign_offs:
        yield f"  phase {each.phase}, {each.name}: {count(each.tests, 'test')}, commit {each.commit[:12]}"
    if cycle.hold == "stopped" and cycle.stop is not None:
        yield f"It stopped. {cycle.hold_reason}"
        yield f"Answer with: aop answer {cycle.stop.question_id} TEXT, then: aop forge build {cycle.project_id}"
    elif cycle.hold:
        yield f"It does not go on ({cycle.hold}). {cycle.hold_reason}"
        yield f"Continue with: aop forge resume {cycle.build_id}, then: aop forge build {cycle.project_id}"


ACTIONS: Mapping[str, Action] = {"build": Action(_declare_build, build)}
