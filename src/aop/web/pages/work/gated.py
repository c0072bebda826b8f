"""Gated page: the workflows of single agents, their steps, and the proof of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.record.port import JournalEntry
from aop.web.pages.frame import Visit
from aop.web.pages.work.phase_picture import PhasePicture, phase_picture

MOST_ENTRIES = 400
"""So many entries of the journal are looked through for verdicts."""
MOST_VERDICTS = 20
_VERDICTS = frozenset({"gates_ran", "work_reviewed"})


class WorkflowPanel(Struct, frozen=True, kw_only=True):
    """One workflow on the page."""

    facts: Mapping[str, Any]
    """The workflow as `gated.status` has it."""
    picture: PhasePicture
    current: tuple[int, int] | None
    """The numbers of the task and the step at which it is; None if no step is open."""
    steps_done: int
    steps: int
    question: Mapping[str, Any] | None
    """Its call for help; None if it made none."""
    asks: int
    """The number of its other questions that are open."""
    verdicts: tuple[JournalEntry, ...]
    """The newest verdicts on its trees, the newest first."""
    commands: tuple[str, ...]


def gated_facts(visit: Visit) -> dict[str, Any]:
    """Return every workflow with its steps, its proof, and the action that it waits for."""
    workflows = visit.ask("gated.status")["workflows"]
    # A call for help can be answered after its time, when it is no longer open.
    asked = visit.ask("inbox.list", {"answered": any(each["escalated"] for each in workflows)})["questions"]
    rules = visit.door.kernel.config().policy.gated
    return {
        "panels": [_panel(visit, each, asked) for each in workflows],
        "unlock_scope_reduction_at": rules.unlock_scope_reduction_at,
        "unlock_escalation_at": rules.unlock_escalation_at,
        "master_plan": rules.master_plan,
    }


def _panel(visit: Visit, facts: Mapping[str, Any], asked: Sequence[Mapping[str, Any]]) -> WorkflowPanel:
    steps = [step for task in facts["tasks"] for step in task["steps"]]
    own = [each for each in asked if each["feature_id"] == facts["feature_id"]]
    return WorkflowPanel(
        facts=facts,
        picture=phase_picture(facts["status"]),
        current=next(_open_steps(facts["tasks"]), None),
        steps_done=sum(step["status"] == "DONE" for step in steps),
        steps=len(steps),
        question=next((each for each in own if each["question_id"] == facts["question_id"]), None),
        asks=sum(_is_open(each) and each["question_id"] != facts["question_id"] for each in own),
        verdicts=_verdicts(visit, FeatureId(facts["feature_id"])),
        commands=tuple(_commands(facts)),
    )


def _open_steps(tasks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    for number, task in enumerate(tasks):
        for at, step in enumerate(task["steps"]):
            if step["status"] != "DONE" and task["status"] != "DONE":
                yield number, at


def _is_open(question: Mapping[str, Any]) -> bool:
    return question["answer"] is None and not question["closed_because"]


def _verdicts(visit: Visit, name: FeatureId) -> tuple[JournalEntry, ...]:
    with visit.door.kernel.record.read() as view:
        entries = [each for each in view.journal(feature_id=name, newest=MOST_ENTRIES) if each.event.kind in _VERDICTS]
    return tuple(reversed(entries[-MOST_VERDICTS:]))


def _commands(facts: Mapping[str, Any]) -> Iterator[str]:
    name = facts["feature_id"]
    if facts["escalated"]:
        yield f"aop gated resume --name {name} --guidance TEXT"
    if facts["status"] == "MERGING_BRANCH":
        yield f"aop merge {name}"
    yield f"aop gated run --name {name}"
    yield f"aop logs --feature {name}"
    yield f"aop gated reset --name {name}"
