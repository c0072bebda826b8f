"""Real coding agent with a scripted model, through `aop mcp`."""

from __future__ import annotations

import pytest

from aop.core.roles import Role
from tests.mcpserver.clients import token_for
from tests.real.conftest import Run
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.world import World, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

NOTE = "Said by a model, through an agent, through MCP."
TOOL = "mcp__aop__feature_log_append"


def test_claude_code_calls_a_tool_and_gets_its_answer(run: Run, world: World) -> None:
    world.init("one")
    config = run_aop(world.root, "mcp", "config", "claude").out
    with fake_vendors(leaves_a_note) as model:
        quiet = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "AOP_TOKEN": token_for(world, Role.BUILDER, "one"),
        }
        words = ["-p", "Leave a note.", "--model", "claude-sonnet-4-5", "--setting-sources", "", "--max-turns", "5"]
        words += ["--strict-mcp-config", "--mcp-config", config, "--tools", "Read", "--allowedTools", TOOL]
        ended = run("claude", *words, "--permission-mode", "dontAsk", env=quiet, cwd=world.root)
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), (ended.stdout, ended.stderr, model.asked)
    with world.app.record.read() as view:
        said = [entry.event for entry in view.journal(kinds=("note_added",))]
    assert [(event.actor, event.payload) for event in said] == [("builder:one", {"note": NOTE})]
    assert NOTE in model.asked[-1].results[0]


def leaves_a_note(asked: Asked) -> Call | str:
    return "done" if asked.results else Call(name=TOOL, arguments={"feature_id": "one", "note": NOTE})
