"""Whole builds by scripted models: six phases that are certified, and sloppy work that is flagged for its reasons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.contracts.types import ContractType
from tests.forge.builds.notes_app import (
    APP_WITH_NOTES,
    BASE,
    BUILDER_DIRECTIVE,
    NOTES,
    PHASE_0,
    PHASES,
    TEST_APP_WITH_NOTES,
    TEST_STORE,
)
from tests.forge.builds.run.builders import (
    EVIDENCE_0,
    EVIDENCE_1,
    FETCHED,
    PLAN_0,
    PROJECT,
    SIGNED_0,
    TESTS,
    Said,
    build_with,
    done,
    notes_repository,
    scripted,
    signing,
    writes,
)
from tests.forge.builds.run.teams import AUDITED, AUDITOR, CODER, REPORT, SCOUT, Team, Turn, handed_in
from tests.forge.builds.run.teams import TESTS as COMMANDED
from tests.forge.projects import stored
from tests.world import World, git, make_repository

MODULES = {"search": "found", "tags": "tagged", "export": "exported"}
"""The modules of the phases 2 to 4, each with its one function."""
FULL_PHASES = (
    PHASES.partition("## Phase 1")[0]
    + "## Phase 1 — Notes\n**Objective:** Programs read and write notes.\n**Deliverables:**\n"
    "- `/notes` in `notes/app.py`, each method with a test\n**Schema coverage:** none\n"
    "**Exit criteria:**\n- The tests pass\n\n"
    + "".join(
        f"## Phase {number} — {name.title()}\n**Objective:** Notes are {verb}.\n**Deliverables:**\n"
        f"- `notes/{name}.py`, `tests/test_{name}.py`\n**Schema coverage:** none\n"
        "**Exit criteria:**\n- The tests pass\n\n"
        for number, (name, verb) in enumerate(MODULES.items(), start=2)
    )
    + "## Phase 5 — Release\n**Objective:** A stranger can run it.\n**Deliverables:**\n- `README.md`: run, test\n"
    "**Schema coverage:** none\n**Exit criteria:**\n- The README was followed once\n"
)
FULL_DIRECTIVE = BUILDER_DIRECTIVE.replace("mode: mini", "mode: full").replace("[0, 1]", "[0, 1, 2, 3, 4, 5]")


def phase(number: int, files: dict[str, str], *evidence: str) -> tuple[Said, ...]:
    """Return the replies of an honest phase with one task."""
    fetch = ("forge_get_phase_window", {"phase_number": number})
    plan = f"=== PLAN ===\n1. Build phase {number}\n=== END PLAN ==="
    return (Said(calls=(fetch,)), Said(plan, writes(files)), Said(done(1), (TESTS,)), Said(signing(number, evidence)))


def module(number: int, name: str, verb: str) -> tuple[Said, ...]:
    """Return the replies of a phase that delivers one module."""
    test = (
        f"import unittest\n\nfrom notes.{name} import {verb}\n\n\nclass {name.title()}Test(unittest.TestCase):\n"
        f'    def test_it_works(self) -> None:\n        self.assertEqual({verb}(["a", "b"]), ["a", "b"])\n'
    )
    code = f'"""How notes are {verb}."""\n\n\ndef {verb}(notes: list[str]) -> list[str]:\n    return sorted(notes)\n'
    return phase(
        number, {f"notes/{name}.py": code, f"tests/test_{name}.py": test}, f"notes/{name}.py, tests/test_{name}.py"
    )


FULL = (
    phase(0, dict(PHASE_0), *EVIDENCE_0),
    phase(1, {"notes/app.py": APP_WITH_NOTES, "tests/test_app.py": TEST_APP_WITH_NOTES}, EVIDENCE_1[0]),
    *(module(number, *each) for number, each in enumerate(MODULES.items(), start=2)),
    phase(5, {"README.md": "# Notes\n\nRun: python3 -m notes. Test: python3 -m unittest.\n"}, EVIDENCE_1[1]),
)
"""The replies of each phase."""


def by_one_builder(world: World) -> BuildCycle:
    return build_with(world, scripted(*(reply for replies in FULL for reply in replies)))


def by_a_team(world: World) -> BuildCycle:
    turns: list[Turn] = []
    for replies in FULL:
        coded = [Said(each.text, COMMANDED if each.calls == (TESTS,) else each.calls) for each in replies]
        turns += [(SCOUT, (replies[0], handed_in(REPORT))), (CODER, coded), (AUDITOR, AUDITED)]
    return Team(turns).build(world)


@pytest.mark.slow
@pytest.mark.parametrize("build", [by_one_builder, by_a_team])
def test_six_phases_are_built_and_certified(tmp_path: Path, build: Callable[[World], BuildCycle]) -> None:
    world = World(make_repository(tmp_path / "repo", BASE))
    world.ok("forge.project_new", name="Notes", mode="full")
    contracts = {ContractType.PHASES: FULL_PHASES, ContractType.BUILDER_DIRECTIVE: FULL_DIRECTIVE}
    stored(world, PROJECT, {**NOTES, **contracts})
    main = git(world.root, "rev-parse", "main")
    cycle = build(world)
    assert [(each.phase, each.tests) for each in cycle.sign_offs] == [(0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 7)]
    answer = world.ok("forge.build_verify_seal", build_id=cycle.build_id)
    assert (answer["valid"], answer["seal"]["verdict"], answer["seal"]["reasons"]) == (True, "CERTIFIED", [])
    assert (cycle.refused, git(world.root, "rev-parse", "main")) == ((), main)
    world.close()


def test_a_sloppy_model_is_stopped_and_what_it_left_is_flagged_for_its_reasons(tmp_path: Path) -> None:
    world = notes_repository(tmp_path / "repo")
    red = {
        **PHASE_0,
        "tests/test_store.py": TEST_STORE.replace('["milk"])', '["bread"])'),
        "scripts/more.py": "x = 1\n",
    }
    model = scripted(FETCHED, Said(PLAN_0, writes(red)), Said(f"{done(1, 2)}\n{SIGNED_0.text}"), SIGNED_0, SIGNED_0)
    with pytest.raises(BuildHeld) as held:
        build_with(world, model)
    assert held.value.cycle.hold == "stopped"
    seal = world.ok("forge.build_seal", build_id="notes-b1")["seal"]
    assert (seal["verdict"], *seal["reasons"][:3]) == (
        "FLAGGED",
        "FLAGGED, whatever the score: A8 tests failed.",
        "At most CONDITIONAL, whatever the score: A1 scope failed.",
        "At most CONDITIONAL, whatever the score: 2 phases not signed off on what is sealed.",
    )
    world.close()
