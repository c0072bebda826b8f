"""Brings a workflow to where each row of the transition table begins, and names the call that the row is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.gated.agents import APPROVE, PLAN, RUN, TEST_ONE, Agent, active_pr, gated_repository
from tests.kernel.tools.worlds import gates_of, patch_of, step, yaml
from tests.world import World, git

NAME = "one"
Given = tuple[str, dict[str, Any]]
ASK: Given = ("get_task", {})
HAND_IN: Given = ("submit_work", {"summary": "Done."})
TEST: Given = ("submit_work", {"summary": "Done.", "test_command": RUN, "expectation": "PASS"})
FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}
FINDING = {"file_path": "src/said.txt", "severity": "MINOR", "description": "No end.", "recommendation": "Add it."}
FOUND = json.dumps({"verdict": "REQUEST_CHANGES", "summary": "Not yet.", "findings": [FINDING]})


def brought_to(requirement: str, root: Path) -> Given:
    """Make a repository whose workflow is where a row begins; return the call."""
    reviewer = "exit 3" if requirement in ("GATED-52", "GATED-53") else f"echo '{APPROVE}'"
    world = World(gated_repository(root, reviewer=reviewer, **POLICIES.get(requirement, {})))
    try:
        world.ok("gated.start", feature_id=NAME)
        return STAGES[requirement](Agent(world, NAME))
    finally:
        world.close()


def _drafted(agent: Agent) -> Given:
    agent.write("ACTIVE_PR.json", active_pr("feat: Say one", "Say it"))
    return HAND_IN


def _planned(agent: Agent) -> Given:
    _drafted(agent)
    agent.submit()
    return ASK


def _stepping(agent: Agent) -> Given:
    _planned(agent)
    agent.task()
    return ASK


def _red(agent: Agent) -> Given:
    _stepping(agent)
    agent.write("tests/test_one.sh", TEST_ONE)
    return "submit_work", {"summary": "Red.", "test_command": RUN, "expectation": "FAIL"}


def _analysing(agent: Agent) -> Given:
    tool, given = _red(agent)
    agent.call(tool, **given)
    return "submit_work", {"summary": "It failed rightly.", "analysis_decision": "SUCCESS"}


def _fixing(agent: Agent, text: str = "one\n") -> Given:
    tool, given = _analysing(agent)
    agent.call(tool, **given)
    agent.task()
    agent.write("src/said.txt", text)
    return TEST


def _patching(agent: Agent) -> Given:
    _stepping(agent)
    text, sha = agent.content("src/said.txt")
    diff = patch_of("src/said.txt", "one", old=tuple(text.splitlines()))
    return "safe_patch", {"file_path": "src/said.txt", "unified_diff": diff, "base_content_sha256": sha}


def _checkpoint(agent: Agent) -> Given:
    _fixing(agent)
    agent.submit(test_command=RUN, expectation="PASS")
    agent.task()
    return HAND_IN


def _all_done(agent: Agent) -> Given:
    _checkpoint(agent)
    agent.submit()
    return ASK


def _debugging(agent: Agent, times: int = 1) -> Given:
    _fixing(agent, "wrong\n")
    for _ in range(times):
        agent.submit(test_command=RUN, expectation="PASS")
    return ASK


def _mending(agent: Agent) -> Given:
    _debugging(agent)
    agent.task()
    agent.write("src/said.txt", "one\n")
    return TEST


def _failing_again(agent: Agent) -> Given:
    _debugging(agent)
    agent.task()
    return TEST


def _reducing(agent: Agent) -> Given:
    _debugging(agent, 2)
    return "request_scope_reduction", {}


def _escalating(agent: Agent) -> Given:
    _debugging(agent, 2)
    return "escalate_for_external_help", {"markdown_report": "# Stuck\n"}


def _replanning(agent: Agent) -> Given:
    _reducing(agent)
    agent.call("request_scope_reduction")
    return ASK


def _finer(agent: Agent) -> Given:
    _replanning(agent)
    finer = json.loads(active_pr("feat: Say one", "Say something", "Verify that it is said"))
    finer["tasks"][0]["breakdownHistory"] = {"originalTaskName": "Say it", "justification": "It was too much."}
    agent.write("ACTIVE_PR.json", json.dumps(finer))
    return HAND_IN


def _reviewing(report: str) -> Callable[[Agent], Given]:
    """A review fails; then another reviewer is named, who says this."""

    def stage(agent: Agent) -> Given:
        _all_done(agent)
        assert agent.call("get_task")["status"] == "CODE_REVIEW"
        root = agent.world.root
        policy = {"gated": {"review_command": ["sh", "-c", f"echo '{report}'"]}}
        (root / "agentic/orchestrator/policy.yaml").write_text(yaml(version=1, **policy))
        git(root, "commit", "-qam", "Another reviewer")
        return ASK

    return stage


def _reviewed(agent: Agent) -> Given:
    _all_done(agent)
    agent.task()
    return ASK


def _squashing(agent: Agent) -> Given:
    _reviewed(agent)
    return HAND_IN


def _another_commit(agent: Agent) -> Given:
    _reviewed(agent)
    return "submit_work", {"summary": "Done.", "commit_hash": "0" * 40}


def _squashed(agent: Agent) -> Given:
    _squashing(agent)
    agent.submit()
    return ASK


def _marking(agent: Agent) -> Given:
    _squashed(agent)
    commit = agent.call("get_task")["task"].partition("[DONE] ")[2][:40]
    plan = agent.content(PLAN)[0]
    agent.write(PLAN, plan.replace(": Say one\n", f": Say one [DONE] {commit}\n"))
    return HAND_IN


def _unfinished(agent: Agent) -> Given:
    """The gates have another step by the time that the pull request is finished."""
    _marking(agent)
    root = agent.world.root
    (root / "agentic/orchestrator/gates.yaml").write_text(gates_of(step("echo Not tidy.; exit 3")))
    git(root, "commit", "-qam", "Another gate")
    return HAND_IN


def _marked(agent: Agent) -> Given:
    _marking(agent)
    assert agent.submit() == "SUCCESS"
    return ASK


def _merged(agent: Agent) -> Given:
    _marked(agent)
    agent.task()
    token = agent.world.approval(NAME)
    agent.world.ok("feature.ready_to_merge", feature_id=NAME, user_approval_token=token)
    return ASK


def _conflicting(agent: Agent) -> Given:
    _marked(agent)
    agent.task()
    (agent.world.root / "src/said.txt").write_text("else\n")
    git(agent.world.root, "commit", "-qam", "Say something else")
    return ASK


def _halted(agent: Agent) -> Given:
    _conflicting(agent)
    agent.task()
    return ASK


STAGES: Mapping[str, Callable[[Agent], Given]] = {
    "GATED-39": lambda _agent: ASK,
    "GATED-40": _drafted,
    "GATED-41": _planned,
    "GATED-42": _stepping,
    "GATED-43": _all_done,
    "GATED-44": _fixing,
    "GATED-45": lambda agent: _fixing(agent, "wrong\n"),
    "GATED-46": _debugging,
    "GATED-47": _mending,
    "GATED-48": _failing_again,
    "GATED-49": _reducing,
    "GATED-50": _replanning,
    "GATED-51": _finer,
    "GATED-52": _reviewing(APPROVE),
    "GATED-53": _reviewing(FOUND),
    "GATED-54": _reviewed,
    "GATED-55": _squashing,
    "GATED-56": _another_commit,
    "GATED-57": _squashed,
    "GATED-58": _marking,
    "GATED-90": _unfinished,
    "GATED-59": _marked,
    "GATED-60": _merged,
    "GATED-61": _conflicting,
    "GATED-62": _halted,
    "patch": _patching,
    "red": _red,
    "judgement": _analysing,
    "checkpoint": _checkpoint,
    "escalation": _escalating,
    "merges by itself": _marked,
}
"""Every row of the table by its requirement, and what changes something within a phase."""
POLICIES: Mapping[str, dict[str, Any]] = {
    **{key: {"gated": FEW} for key in ("GATED-49", "GATED-50", "GATED-51", "escalation")},
    "merges by itself": {"merge_policy": {"require_user_approval": False}},
}
