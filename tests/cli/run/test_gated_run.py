"""`aop gated run` with an agent that is a command, as real processes: how it goes on, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.brains.endpoints import Step, serving
from tests.cli.run.acp_agents import acp_command
from tests.gated import scripted
from tests.gated.agents import PLAN_TEXT as PLAN
from tests.gated.agents import gated_repository
from tests.racing import until
from tests.world import Ran, git, run_aop


def agent(manner: str) -> dict[str, str]:
    return {"AOP_CUSTOM_AGENT": f"{sys.executable} {scripted.__file__} {manner}"}


def driven(root: Path, manner: str = "works", *words: str) -> Ran:
    return run_aop(root, "gated", "run", "--agent-provider", "custom", "--json", *words, env=agent(manner))


@pytest.mark.slow
@pytest.mark.req("GATED-03", "GATED-04", "GATED-08", "GATED-107")
def test_an_agent_is_driven_through_the_whole_plan(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo", merge_policy={"require_user_approval": False})
    ran = driven(root)
    assert ran.code == 0, ran.out + ran.err
    ended = ran.json["data"]
    assert (ended["ending"], ended["workflow"]["status"]) == ("done", "INITIALIZING")
    assert git(root, "show", "main:src/one.txt", "main:src/two.txt") == "one\nAnd that is all.\ntwo\nAnd that is all.\n"
    assert git(root, "show", "main:docs/Plan_Doc/Active_Plan.md").count("[DONE] ") == 2
    lines = [line.partition("gated: ")[2] for line in ran.err.splitlines()]
    assert "submit_work: NEEDS_ANALYSIS: tests/test_begin.sh: 0" in lines
    again = driven(root)
    assert (again.code, again.json["data"]["ending"], again.json["data"]["turns"]) == (0, "done", 0)


@pytest.mark.slow
def test_it_ends_where_a_person_approves_and_goes_on_when_it_is_merged(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo")
    ran = driven(root)
    assert (ran.code, ran.json["data"]["ending"]) == (4, "waits_for_approval"), ran.out + ran.err
    assert "aop approve gated" in ran.json["data"]["message"]
    assert driven(root).json["data"]["turns"] == 0
    token = run_aop(root, "approve", "gated", "--yes").out.strip()
    assert run_aop(root, "merge", "gated", "--token", token).code == 0
    ran = driven(root, "works", "--max-turns", "1")
    assert (ran.code, ran.json["data"]["workflow"]["pr_title"]) == (6, "feat: Say two")


@pytest.mark.slow
@pytest.mark.req("GATED-71", "GATED-84")
def test_an_agent_that_calls_a_person_is_asked_no_more_until_one_answered(tmp_path: Path) -> None:
    few = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}
    root = gated_repository(tmp_path / "repo", gated=few)
    ran = driven(root, "stuck")
    assert (ran.code, ran.json["data"]["ending"]) == (10, "escalated"), ran.out + ran.err
    assert driven(root, "stuck").json["data"]["turns"] == 0
    assert run_aop(root, "gated", "resume", "--guidance", "Write a test.").code == 0
    assert driven(root, "stuck", "--max-turns", "1").json["data"]["ending"] == "escalated"


@pytest.mark.slow
def test_an_agent_that_speaks_the_agent_client_protocol_takes_steps_by_mcp(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo")
    wanted = tmp_path / "calls.json"
    wanted.write_text(
        json.dumps([("get_task", {}), *scripted.calls_for("choose the next pull request", lambda _: PLAN)])
    )
    env = {"AOP_CUSTOM_AGENT": f"{acp_command(tmp_path / 'agent', 'steps')} {wanted}"}
    words = ["--agent-provider", "custom", "--agent-model", "a-model", "--max-turns", "1", "--json"]
    ran = run_aop(root, "gated", "run", *words, env=env)
    assert (ran.code, ran.json["data"]["ending"]) == (6, "turns_used_up"), ran.out + ran.err
    assert ran.json["data"]["workflow"]["pr_title"] == "feat: Say one"
    assert "denied: edit" in (root / ".aop/logs/gated/swe-says.log").read_text()


@pytest.mark.slow
def test_a_plain_model_takes_steps_without_any_program(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo")
    made = scripted.calls_for("choose the next pull request", lambda _: PLAN)
    with serving(
        "anthropic", Step(calls=tuple(made)), Step(calls=(("hand_in_result", {"summary": "Planned."}),))
    ) as model:
        env = {"ANTHROPIC_API_KEY": "sk-ant-not-for-anybody-0123456789", "ANTHROPIC_BASE_URL": model.url}
        words = [
            "--agent-provider",
            "model",
            "--agent-model",
            "anthropic:claude-sonnet-5",
            "--max-turns",
            "1",
            "--json",
        ]
        ran = run_aop(root, "gated", "run", *words, env=env)
    assert (ran.code, ran.json["data"]["ending"]) == (6, "turns_used_up"), ran.out + ran.err
    assert ran.json["data"]["workflow"]["pr_title"] == "feat: Say one"
    assert "turn 1: Planned." in ran.err


def test_the_second_of_two_agents_is_told(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo")
    first = subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "gated", "run", "--agent-provider", "custom"],
        cwd=root,
        env={**os.environ, "AOP_CUSTOM_AGENT": "sleep 600"},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: any((root / ".aop/tmp").glob("*/begun")))
        ran = driven(root)
        assert (ran.code, ran.json["error"]["code"]) == (5, "agent_at_work"), ran.out
    finally:
        first.terminate()
    assert first.wait(300) == 130


ENDINGS: list[tuple[str, str, tuple[str, ...], dict[str, Any], int]] = [
    ("talks", "no_progress", (), {}, 1),
    ("idles", "no_progress", (), {}, 1),
    ("works", "turns_used_up", ("--max-turns", "2"), {}, 6),
    ("works", "time_is_up", ("--max-minutes", "0.000001"), {}, 6),
    ("works", "cost_cap", (), {"cost": {"max_tokens_per_feature": 1}}, 4),
]


@pytest.mark.parametrize(
    ("manner", "ending", "words", "policy", "code"), ENDINGS, ids=[each[1] + each[0] for each in ENDINGS]
)
def test_it_says_what_ran_out(
    tmp_path: Path, manner: str, ending: str, words: tuple[str, ...], policy: dict[str, Any], code: int
) -> None:
    ran = driven(gated_repository(tmp_path / "repo", **policy), manner, *words)
    assert (ran.code, ran.json["data"]["ending"]) == (code, ending), ran.out + ran.err


def test_what_an_agent_says_steers_no_terminal(tmp_path: Path) -> None:
    said = Step(calls=(("hand_in_result", {"summary": "a\x1b[2J\u202egnp.exe\r\nturn 2: b"}),))
    with serving("anthropic", said) as model:
        env = {"ANTHROPIC_API_KEY": "sk-ant-not-for-anybody-0123456789", "ANTHROPIC_BASE_URL": model.url}
        words = ("--agent-provider", "model", "--agent-model", "anthropic:claude-sonnet-5", "--max-turns", "1")
        ran = run_aop(gated_repository(tmp_path / "repo"), "gated", "run", *words, env=env)
    assert ran.code == 6, ran.err
    assert [line.partition("gated: ")[2] for line in ran.err.splitlines() if " turn " in line] == [
        "turn 1: a\\u{1b}[2J\\u{202e}gnp.exe turn 2: b"
    ]


def test_under_a_cap_of_cost_a_model_without_a_price_is_refused_before_the_first_request(tmp_path: Path) -> None:
    root = gated_repository(tmp_path / "repo", cost={"max_usd_per_feature": 5})
    with serving("anthropic", Step(text="Hello.")) as model:
        env = {"ANTHROPIC_API_KEY": "sk-ant-not-for-anybody-0123456789", "ANTHROPIC_BASE_URL": model.url}
        words = ("--agent-provider", "model", "--agent-model", "anthropic:claude-newest-9", "--json")
        ran = run_aop(root, "gated", "run", *words, env=env)
    assert (ran.code, ran.json["error"]["code"], model.heard) == (2, "model_price_unknown", []), ran.out + ran.err
    assert "no price for `anthropic:claude-newest-9`" in ran.json["error"]["message"]


@pytest.mark.parametrize(
    ("words", "time"),
    [("try again in 2 hours", "It names a time: 20"), ("no more today", "It names no time.")],
)
def test_it_ends_at_the_quota_of_the_model_and_says_when_to_run_again(tmp_path: Path, words: str, time: str) -> None:
    script = tmp_path / "limited.py"
    script.write_text(f"import sys\nsys.exit('Rate limit exceeded: {words}')\n")
    env = {"AOP_CUSTOM_AGENT": f"{sys.executable} {script}"}
    ran = run_aop(gated_repository(tmp_path / "repo"), "gated", "run", "--agent-provider", "custom", env=env)
    assert (ran.code, ran.out.partition(":")[0]) == (6, "quota_reached"), ran.out + ran.err
    assert f"It says: Rate limit exceeded: {words} {time}" in ran.out
    assert "Run this again after that time. If none is named, look at the account: it may have no credit." in ran.err
