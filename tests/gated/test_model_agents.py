"""A plain model that works one step at a time, played from a script: one attempt a turn, and what it may call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aop.adapters.agents.gated import persona
from aop.adapters.agents.scratch_trees import ScratchReader
from aop.adapters.agents.workers.gated_model import SteppingModel
from aop.adapters.agents.workers.model import ModelContext
from aop.adapters.machine.clock import SystemClock
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Observation, Reply, Request, UserText
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Price, Prices
from aop.core.errors import ModelUnavailable
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import Redactor
from aop.gated.driver import Drive, DriveEnded, DriveLimits
from aop.kernel.record.documents.usage import FeatureUsage
from aop.testing.scripted_model import NAME, ScriptedModel, Step, answers, calls, says
from tests.gated.agents import Agent, begun
from tests.gated.scripted import calls_for

OVER = "Your turn is over: each turn has one attempt."
TOOLS = {"escalate_for_external_help", "get_task", "list_directory", "read_file", "request_scope_reduction"}
TOOLS |= {"safe_patch", "search_code", "submit_work"}


def driven(agent: Agent, *steps: Step, turns: int) -> tuple[DriveEnded, ScriptedModel]:
    world, model = agent.world, ScriptedModel(steps)
    desk = ModelContext(
        gateway=world.app.gateway,
        scratches=ScratchReader(world.app.repository, world.app.root, {}),
        logs=world.app.root / ".aop/logs",
        seconds=60,
    )
    brain = ModelBrain(
        model, Prices({NAME: Price(input=10_000, output=50_000)}), SystemClock(), Redactor(), CallLimits()
    )
    who = SteppingModel(brain, NAME, desk, persona())
    drive = Drive(world.app.gateway, FeatureId("gated"), who, DriveLimits(turns=turns, seconds=600), lambda _line: None)
    return drive.to_the_end(), model


def works(agent: Agent) -> Step:
    """Make all the calls that the task in the prompt wants, and one more than it may."""

    def step(request: Request) -> Reply:
        (said,) = request.turns
        assert isinstance(said, UserText)
        given = json.loads(said.text[said.text.index("{") : said.text.rindex("}") + 1])
        wanted = calls_for(given["task"]["task"], lambda path: agent.content(path)[0])
        return calls(*wanted, ("get_task", {}))(request)

    return step


@pytest.mark.req("GATED-03", "GATED-04", "GATED-107")
def test_a_model_makes_one_attempt_in_each_turn_and_begins_the_next_anew(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    turn = (works(agent), answers({"summary": "Done as told."}))
    ended, model = driven(agent, *turn, *turn, turns=2)
    assert (ended.ending, ended.turns) == ("turns_used_up", 2)
    (workflow,) = agent.world.ok("gated.status")["workflows"]
    assert (workflow["status"], workflow["pr_title"]) == ("EXECUTING_TDD", "feat: Say one")
    assert "decide whether the test failed" in agent.task()
    assert {tool.name for tool in model.asked[0].tools} == TOOLS
    assert [len(asked.turns) for asked in model.asked] == [1, 5, 1, 5]
    refused = model.asked[1].turns[-1]
    assert isinstance(refused, Observation)
    assert OVER in refused.text
    with agent.world.app.record.read() as view:
        spent = view.get(FeatureUsage, "gated")
    assert spent is not None
    assert spent.roles["swe"].turns == 2


def test_a_model_that_does_nothing_is_asked_only_so_often(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    steps = [says("Well."), says("Well."), ModelUnavailable("It is away."), answers({"summary": "I looked."})]
    ended, _model = driven(agent, *steps, says("Well."), says("Well."), ModelUnavailable("Away."), turns=9)
    assert (ended.ending, ended.turns) == ("no_progress", 5)
