"""Build at the terminal: `aop forge build`, here or in the background."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.shell.exits import Exit
from aop.cli.shell.mcp_server import serve_mcp
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.roles import Role
from aop.core.text.counts import count

if TYPE_CHECKING:
    from aop.brains.ports import Brain
    from aop.core.errors import Json
    from aop.forge.builds.documents import BuildCycle, Crew
    from aop.wiring.build import App

TEAM = (Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER)


def _declare_build(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument(
        "--crew",
        choices=["solo", "team"],
        help="`solo`: one builder does everything (default); `team`: scout, coder, auditor and fixer",
    )
    parser.add_argument(
        "--coder",
        choices=["model", "host"],
        default="model",
        help="the coder of a team: a model (default), or any MCP host with a token of `aop token coder --build BUILD`",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="as `provider:model`; otherwise FORGE_CODER_LLM_MODEL_PRIORITY and the like for each role of a team,"
        " FORGE_LLM_MODEL_PRIORITY or AOP_MODELS says it",
    )
    parser.add_argument("--detach", action="store_true", help="build in the background")


def build(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Build a project from its contracts; the same command goes on with a build that was interrupted."""
    if not arguments.detach:
        with open_app(arguments) as app:
            return _work(app, arguments, terminal)
    from aop.adapters.machine.background import run_in_background
    from aop.wiring.forge.builds import BUILD_LOGS, ProjectBuild

    with open_app(arguments) as app, tool_refusals():
        build_id = ProjectBuild(app, app.person, arguments.project, _crew(app, arguments), terminal.say).build_id
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
    from aop.wiring.forge.builds import ProjectBuild

    with tool_refusals():
        crew, by_host = _crew(app, arguments), arguments.coder == "host"
        brains = _brains(app, crew, arguments)
        work = ProjectBuild(app, app.person, arguments.project, crew, terminal.say)
        try:
            with _door(app, work.build_id, terminal) if by_host else nullcontext():
                seal = work.run(brains.__getitem__, ready, by_host=by_host)
        except BuildHeld as held:
            return _show(held.cycle, None, terminal)
        return _show(work.cycle(), seal, terminal)


def _crew(app: App, arguments: argparse.Namespace) -> Crew:
    """Return the crew that was asked for: without one, that of the build that goes on. Raises: InvalidCliArgs."""
    from aop.wiring.forge.builds import living_build

    by_host, living = arguments.coder == "host", living_build(app, arguments.project)
    crew: Crew = arguments.crew or (living.crew if living else "team" if by_host else "solo")
    if by_host and crew == "solo":
        is_begun = living is not None and living.crew == "solo"
        hint = "Go on without `--coder host`." if is_begun else "Choose `--crew team`."
        raise InvalidCliArgs("The crew `solo` has no coder.", hint=hint)
    return crew


def _brains(app: App, crew: Crew, arguments: argparse.Namespace) -> Mapping[Role, Brain]:
    """Return the brain of each role, before anything is begun. Raises: ModelNotConfigured and the like."""
    from aop.wiring.forge.generation import PRODUCT
    from aop.wiring.models import build_brain

    if crew == "solo":
        return {Role.FORGE_BUILDER: build_brain(app.settings, chosen=arguments.model, product=PRODUCT)}
    models = [role for role in TEAM if role is not Role.CODER or arguments.coder == "model"]
    return {role: build_brain(app.settings, chosen=arguments.model, product=f"{PRODUCT}-{role}") for role in models}


@contextmanager
def _door(app: App, build_id: str, terminal: Terminal) -> Iterator[None]:
    """Serve MCP for the coder of a build, until the build ends or is held."""
    with serve_mcp(app.gateway, app.tokens, terminal.say) as url:
        terminal.say(f"coder: connect an MCP host to {url}, with a token of: aop token coder --build {build_id}")
        yield


@contextmanager
def tool_refusals() -> Iterator[None]:
    """Pass on what a tool refuses. Raises: CallRefused."""
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
