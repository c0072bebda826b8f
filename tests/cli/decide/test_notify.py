"""`aop notify test`, and a run that notifies people, as real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.reporting.web_hooks import listening
from tests.cli.scripted_agents import agent_command
from tests.kernel.tools.worlds import POLICY, yaml
from tests.world import FILES, make_repository, run_aop

HOOK = {"type": "webhook", "url_env": "HOOK_URL", "secret_env": "HOOK_KEY"}


def repository(folder: Path, **targets: Any) -> Path:
    policy = {"targets": targets, "attempts": 1}
    return make_repository(folder / "repo", {**FILES, POLICY: yaml(version=1, notifications=policy)})


def test_every_target_is_tried_and_the_exit_code_says_whether_all_were_reached(tmp_path: Path) -> None:
    root = repository(tmp_path, hook=HOOK, team={"type": "slack", "url_env": "TEAM_URL"})
    with listening() as listener:
        env = {"HOOK_URL": listener.url, "HOOK_KEY": "key", "TEAM_URL": listener.url}
        both = run_aop(root, "notify", "test", env=env)
        one = run_aop(root, "notify", "test", "--target", "team", "--json", env={**env, "TEAM_URL": ""})
    assert (both.code, both.out) == (0, "hook  sent\nteam  sent\n")
    why = "The variable `TEAM_URL` is not set."
    assert (one.code, one.json["ok"]) == (1, False)
    assert one.json["data"] == {"targets": [{"target": "team", "ok": False, "problem": why}]}
    assert len(listener.heard) == 2


def test_an_unknown_target_is_refused_and_without_targets_nothing_is_proven(
    tmp_path: Path,
) -> None:
    root = repository(tmp_path)
    unknown = run_aop(root, "notify", "test", "--target", "phone", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "invalid_cli_args")
    none = run_aop(root, "notify", "test")
    assert (none.code, "no notification was sent" in none.err) == (3, True)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({"type": "webhook", "url_env": "A"}, "a target of type `webhook` needs it"),
        ({"type": "slack"}, "a target of type `slack` needs it"),
        ({"type": "slack", "url_env": "https://x"}, "url_env"),
        ({"type": "pigeon"}, "type"),
    ],
    ids=str,
)
def test_a_target_that_cannot_be_is_refused_with_the_configuration(
    tmp_path: Path, target: dict[str, str], why: str
) -> None:
    ran = run_aop(repository(tmp_path, bad=target), "notify", "test", "--json")
    assert ran.json["error"]["code"] == "invalid_configuration"
    assert why in json.dumps(ran.json["error"])


@pytest.mark.slow
def test_a_run_tells_of_a_question_and_of_a_ready_feature_once_each(tmp_path: Path) -> None:
    root = repository(tmp_path, hook=HOOK)
    specs = tmp_path / "specs"
    specs.mkdir()
    for name in ("asks_colour", "one"):
        (specs / f"{name}.md").write_text(f"Write {name}.\n")
    with listening() as listener:
        env = {
            "AOP_CUSTOM_AGENT": agent_command(tmp_path / "agent"),
            "AOP_AGENT_PROVIDER": "custom",
            "HOOK_URL": listener.url,
            "HOOK_KEY": "key",
        }
        for _ in range(2):
            assert run_aop(root, "run", "-fl", str(specs), "--wait", env=env).code == 4
    told = sorted((told["kind"], told["feature_id"], told["text"]) for told in map(_told, listener.heard))
    assert told == [
        ("question", "asks_colour", "asks: Which colour? (aop answer q1 TEXT)"),
        ("ready", "one", "aop review one, and then aop merge one"),
    ]


def _told(heard: Any) -> Any:
    return json.loads(heard.body)
