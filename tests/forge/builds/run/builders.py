"""Models that build Notes for tests: an honest one, and steps for others; and the build that they work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from aop.adapters.machine.clock import SystemClock
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Request
from aop.brains.model_brain import ModelBrain
from aop.brains.ports import Brain
from aop.core.redaction.redactor import Redactor
from aop.forge.builds.documents import BuildCycle
from aop.testing.scripted_model import ScriptedModel, Step, calls
from aop.wiring.forge.builds import ProjectBuild
from tests.brains.subjects import PRICES
from tests.forge.builds.notes_app import BASE, NOTES, PHASE_0, PHASE_1
from tests.forge.projects import stored
from tests.world import World, make_repository

Calls: TypeAlias = tuple[tuple[str, Mapping[str, Any]], ...]

PROJECT = "notes"
BUILD = "notes-b1"
FETCH_0: Calls = (
    ("forge_get_phase_window", {"phase_number": 0}),
    ("forge_get_contract", {"name": "blueprint"}),
    ("forge_get_contract", {"name": "stack"}),
)
FETCH_1: Calls = (("forge_get_phase_window", {"phase_number": 1}),)
PLAN_0 = "=== PLAN ===\n1. Write the store and its tests\n2. Write the application and its test\n=== END PLAN ==="
PLAN_1 = "=== PLAN ===\n1. Answer for notes, and say how to run it\n=== END PLAN ==="
EVIDENCE_0 = ("notes/store.py, tests/test_store.py", "notes/app.py, tests/test_app.py")
EVIDENCE_1 = ("notes/app.py, tests/test_app.py", "README.md (no test: it is prose)")
TESTS = ("run_tests", {"command": "python3 -m unittest discover -s tests -t ."})


def writes(files: Mapping[str, str]) -> Calls:
    """Return the calls that write these files."""
    return tuple(("write_file", {"path": path, "content": text}) for path, text in files.items())


def signing(phase: int, evidence: Sequence[str]) -> str:
    """Return the text of a sign-off."""
    listed = "\n".join(f"- {number}: {told}" for number, told in enumerate(evidence, start=1))
    return (
        f"=== PHASE SIGN-OFF: PASS ===\nPhase: {phase}\nDeliverables:\n{listed}\nTests: PASS\n"
        "=== END PHASE SIGN-OFF ==="
    )


def done(*tasks: int) -> str:
    """Return the text that says that tasks are done."""
    return "\n".join(f"=== TASK DONE: {task} ===" for task in tasks)


class Said(Struct, frozen=True):
    """One reply: its text, and the calls in it."""

    text: str = ""
    calls: Calls = ()


FETCHED = Said(calls=FETCH_0)
WRITTEN_0 = Said(PLAN_0, writes(PHASE_0))
DONE_0 = Said(done(1, 2), (TESTS,))
SIGNED_0 = Said(signing(0, EVIDENCE_0))
BUILDING_0 = (FETCHED, WRITTEN_0, DONE_0)
BUILDING_1 = (Said(calls=FETCH_1), Said(PLAN_1, writes(PHASE_1)), Said(done(1), (TESTS,)))
SIGNED_1 = Said(signing(1, EVIDENCE_1))
HONEST = (*BUILDING_0, SIGNED_0, *BUILDING_1, SIGNED_1)


def scripted(*replies: Said | Step) -> ScriptedModel:
    """Return a model that gives these replies in order."""
    return ScriptedModel([calls(*each.calls, text=each.text) if isinstance(each, Said) else each for each in replies])


def notes_repository(folder: Path, rules: str = "", base: Mapping[str, str] = MappingProxyType({})) -> World:
    """Return a repository whose project Notes has its contracts, with these lines as its policy, and these files."""
    policy = {"agentic/orchestrator/policy.yaml": rules} if rules else {}
    world = World(make_repository(folder, {**BASE, **policy, **base}))
    world.ok("forge.project_new", name="Notes", mode="mini")
    stored(world, PROJECT, NOTES)
    return world


def brain_of(model: ScriptedModel) -> Brain:
    """Return a brain on a scripted model."""
    return ModelBrain(model, PRICES, SystemClock(), Redactor(), CallLimits())


def build_with(world: World, model: ScriptedModel, report: Callable[[str], None] = lambda _: None) -> BuildCycle:
    """Build Notes, or go on with it, as `aop forge build` does; return its cycle."""
    work = ProjectBuild(world.app, world.app.person, PROJECT, "solo", report)
    brain = brain_of(model)
    work.run(lambda _role: brain, lambda: None)
    return work.cycle()


def said_to(request: Request) -> str:
    """Return everything that a request tells its model."""
    return "\n".join(turn.text for turn in request.turns)
