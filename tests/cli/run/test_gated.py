"""`aop gated` and the shell shims of its tools, as real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gated.agents import NOTHING, PLAN, RUN, active_pr, gated_repository
from tests.kernel.tools.worlds import patch_of
from tests.world import run_aop


def call(root: Path, tool: str, **arguments: object) -> object:
    ran = run_aop(root, "call", tool, json.dumps(arguments))
    assert ran.code == 0, ran.err + ran.out
    return ran.json["data"]


def test_a_plan_that_the_agent_would_look_for_in_vain_is_told_at_the_start(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo")
    missing = run_aop(root, "gated", "start", "--plan", "docs/none.md")
    assert (missing.code, missing.err) == (
        0,
        "The base branch has no `docs/none.md`. Commit it, then run `aop gated start --name gated` again.\n",
    )
    unreadable = run_aop(root, "gated", "start", "--name", "third", "--plan", "README.md")
    assert unreadable.err.startswith("No pull request can be recognised in `README.md`; give each a heading such as")
    run = run_aop(
        root, "gated", "run", "--name", "new", "--plan", "docs/none.md", "--agent-provider", "custom", env=AGENT
    )
    assert (run.code, run.err.splitlines()[0]) == (4, "aop: The base branch has no `docs/none.md`. [no_master_plan]")
    assert "`### Pull Request #1: TITLE`" in run.err
    there = run_aop(root, "gated", "start", "--name", "other")
    assert (there.code, there.err) == (0, "")
    assert f"Open in `{PLAN}`: Say one; Say two." in there.out
    ignored = run_aop(root, "gated", "start", "--name", "other", "--plan", "docs/none.md")
    assert (ignored.code, ignored.err) == (
        0,
        f"`other` already exists and works on `{PLAN}`; for `docs/none.md`, choose another `--name`.\n",
    )


@pytest.mark.slow
@pytest.mark.req("GATED-84", "GATED-85", "GATED-106")
def test_an_agent_with_a_shell_alone_calls_for_help_and_goes_on_with_the_guidance(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo", gated={"unlock_scope_reduction_at": 2, "unlock_escalation_at": 2} | FEW)
    assert run_aop(root, "call", "get_task").code == 4
    assert run_aop(root, "gated", "start").code == 0
    assert run_aop(root, "gated", "start", "--json").json["data"]["created"] is False
    diff = patch_of("ACTIVE_PR.json", *active_pr("feat: Say one", "Say it").splitlines())
    call(root, "safe_patch", file_path="ACTIVE_PR.json", unified_diff=diff, base_content_sha256=NOTHING)
    call(root, "submit_work", summary="Planned.")
    for _ in range(2):
        call(root, "get_task")
        call(root, "submit_work", summary="Red.", test_command=RUN, expectation="FAIL")
    assert run_aop(root, "gated", "resume", "--guidance", "Think.").code == 1
    report = "# Stuck\n\nIt passes, whatever I do: é.\n"
    asked = run_aop(root, "call", "escalate_for_external_help", json.dumps({"markdown_report": report}))
    assert (asked.code, asked.out) == (10, report)
    assert run_aop(root, "call", "submit_work", '{"summary": "More."}').code == 10
    assert "waits for an answer: `aop gated resume" in run_aop(root, "gated", "status").out
    assert run_aop(root, "gated", "resume", "--guidance", "Write a test.").code == 0
    assert "A person says: Write a test." in str(call(root, "get_task"))
    assert run_aop(root, "gated", "reset").code == 0
    assert run_aop(root, "gated", "status", "--json").json["data"]["workflows"][0]["status"] == "INITIALIZING"


AGENT = {"AOP_CUSTOM_AGENT": "true"}
FEW = {"hypothesize_max": 1, "instrumentation_max": 1}
