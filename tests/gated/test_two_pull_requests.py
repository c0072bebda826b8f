"""A scripted agent takes a plan of two pull requests from nothing to two merges, over real MCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.gated.agents import APPROVE, PLAN, RUN, TEST_ONE, Agent, active_pr, gated_repository
from tests.mcpserver.clients import Mcp, over_stdio, token_for
from tests.world import World, git

FINDING = '{"file_path": "src/said.txt", "severity": "MINOR", "description": "No end.", "recommendation": "Add it."}'
FOUND = f'{{"verdict": "REQUEST_CHANGES", "summary": "Not yet.", "findings": [{FINDING}]}}'
REVIEWER = f"if grep -q 'end of it\\|two' \"$AOP_REVIEW_INPUT\"; then echo '{APPROVE}'; else echo '{FOUND}'; fi"


class McpAgent(Agent):
    """Calls the tools as an MCP host does, and keeps what was said."""

    def __init__(self, world: World, client: Mcp) -> None:
        super().__init__(world)
        self.client = client
        self.transcript: list[str] = []

    def answered(self, tool: str, **arguments: Any) -> tuple[Any, str | None]:
        answer = self.client.call(tool, arguments)
        data = None if answer.is_error else answer.data
        if tool not in ("read_file", "safe_patch"):
            said = answer.code if data is None else data["status"]
            self.transcript.append(f"{tool}: {said}")
        return data, answer.code


def say_one(agent: McpAgent) -> None:
    """The first pull request: a wrong fix, too many attempts, a finer plan, and a finding of the reviewer."""
    agent.plan(active_pr("feat: Say one", "Say it"))
    agent.task()
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "wrong\n")
    for _ in range(5):
        assert agent.submit(test_command=RUN, expectation="PASS") == "FAILURE"
    assert agent.refused("request_scope_reduction") == "tool_locked"
    assert agent.submit(test_command=RUN, expectation="PASS") == "FAILURE"
    agent.call("request_scope_reduction")
    finer = json.loads(active_pr("feat: Say one", "Say something", "Verify that it is said"))
    finer["tasks"][0]["breakdownHistory"] = {"originalTaskName": "Say it", "justification": "It was too much."}
    agent.plan(json.dumps(finer))
    agent.task()
    agent.red("tests/test_first.sh", "grep -q one src/said.txt\n")
    agent.green("src/said.txt", "one more\n")
    agent.task()
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    assert agent.task() == "Your goal: complete the next TDD step: GREEN: src/said.txt: No end. Add it."
    agent.green("src/end.txt", "end of it\n")


def say_two(agent: McpAgent) -> None:
    agent.plan(active_pr("feat: Say two", "Say it too"))
    agent.task()
    agent.red("tests/test_two.sh", 'test "$(cat src/more.txt)" = two\n')
    agent.green("src/more.txt", "two\n")


def merged(agent: McpAgent, title: str) -> str:
    """Finish a pull request, and have a person let it in; return its commit."""
    agent.task()
    commit = agent.finish(title)
    agent.task()
    token = agent.world.approval("gated")
    agent.world.ok("feature.ready_to_merge", feature_id="gated", user_approval_token=token)
    agent.task()
    return commit


ASK, OK = "get_task", "submit_work: SUCCESS"
STEP, RED = f"{ASK}: EXECUTING_TDD", ["submit_work: NEEDS_ANALYSIS", OK]
FAILED, GREEN = "submit_work: FAILURE", [STEP, OK, STEP, OK]
END = [f"{ASK}: AWAITING_FINALIZATION", OK, f"{ASK}: FINALIZE_COMPLETE", OK, f"{ASK}: MERGING_BRANCH"]
BEGIN = [f"{ASK}: INITIALIZING", OK, STEP]


@pytest.mark.slow
@pytest.mark.req("GATED-01", "GATED-02", "GATED-05", "GATED-25", "GATED-99", "GATED-100", "GATED-109")
def test_a_plan_of_two_pull_requests_becomes_two_merged_commits(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo", reviewer=REVIEWER)
    world = World(root)
    world.ok("gated.start", feature_id="gated")
    with over_stdio(root, token_for(world, Role.SWE, "gated")) as client:
        assert client.names() == [
            "escalate_for_external_help",
            "get_task",
            "list_directory",
            "read_file",
            "request_scope_reduction",
            "safe_patch",
            "search_code",
            "submit_work",
        ]
        assert {(tool.meta or {}).get("anthropic/alwaysLoad") for tool in client.tools()} == {True}
        agent = McpAgent(world, client)
        agent.task()
        say_one(agent)
        commits = [merged(agent, "Say one")]
        say_two(agent)
        commits.append(merged(agent, "Say two"))
    assert agent.transcript == [
        *BEGIN,
        *RED,
        *[STEP, FAILED, *[f"{ASK}: DEBUGGING", FAILED] * 4],
        "request_scope_reduction: tool_locked",
        *[f"{ASK}: DEBUGGING", FAILED],
        "request_scope_reduction: REPLANNING",
        *[OK, STEP, *RED, *GREEN],
        *[STEP, *RED, *GREEN],
        *[STEP, *GREEN[1:]],
        *END,
        *BEGIN,
        *[*RED, *GREEN],
        *END,
        f"{ASK}: INITIALIZING",
    ]
    assert git(root, "show", "main:src/said.txt", "main:src/more.txt", "main:src/end.txt") == "one\ntwo\nend of it\n"
    marked = git(root, "show", f"main:{PLAN}")
    assert [commit for commit in commits if f"[DONE] {commit}\n" in marked] == commits
    assert git(root, "log", "--topo-order", "--format=%s", "--no-merges", "main") == (
        "docs: mark `feat: Say two` as done\nfeat: Say two\ndocs: mark `feat: Say one` as done\nfeat: Say one\nBegin\n"
    )
    assert git(root, "branch", "--list", "feat/*") == ""
    world.close()
