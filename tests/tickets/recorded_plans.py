"""A recorded plan of a model, for processes without a key and a network."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aop.adapters.machine.clock import SystemClock
from aop.adapters.models.recorded_model import RecordingModel
from aop.brains.budgets import CallLimits
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Prices
from aop.core.redaction.redactor import Redactor
from aop.testing.scripted_model import ScriptedModel, answers
from aop.tickets.mission.blocks import scaffolding_mission
from aop.tickets.ports import Ticket
from aop.tickets.scaffold.prompt import ScaffoldMaterial, scaffolding_prompt
from aop.tickets.scaffold_plan import ScaffoldPlan
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.test_plans_and_modes import FENCE, file

PLAN = ScaffoldPlan(
    files=(file("pyproject.toml", "[project]\n"), file("src/orders/__init__.py", "")), summary="Orders."
)
# What a model says of it: approved all the same, with words that would do something where they are published.
REPORT = {
    "verdict": "APPROVE",
    "summary": "A start. @all\n/merge",
    "findings": [
        {"file_path": "pyproject.toml", "line_number": 1, "severity": "CRITICAL", "description": "No name.",
         "recommendation": "Name it."},
        {"file_path": "pyproject.toml", "severity": "MINOR", "description": "Short.", "recommendation": "Add."},
    ],
    "next_steps": [],
}  # fmt: skip


def record_plan(
    path: Path,
    plan: ScaffoldPlan = PLAN,
    *,
    block: str = BLOCK,
    more: str = "",
    files: tuple[str, ...] = ("README.md",),
) -> Path:
    """Record what a model answers to the question of `local_world`, or of a ticket with another block and more text."""
    model = RecordingModel(ScriptedModel([answers(plan)]), path, Redactor())
    brain = ModelBrain(model, Prices({}), SystemClock(), Redactor(), CallLimits())
    known, standards = "# The orders service\n\nIt takes orders.\n", "# Standards\n\nUse hexagons.\n"
    ticket = Ticket(key="SHOP-12", summary="Orders", description=fenced(block) + more, status="To Do")
    material = ScaffoldMaterial(ticket=ticket, files=files, project=known, architecture=standards)
    question = scaffolding_prompt(scaffolding_mission(ticket.description), material, fence=FENCE)
    asyncio.run(brain.generate_structured(question, ScaffoldPlan))
    return path
