"""Runs with an agent's own log-in: its words, its report and its accounts, with a program in the place of the agent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.adapters.agents.test_logins import ACCESS, REFRESH, codex_tokens, content, logged_in
from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.cli.shops import SECONDS, Shop, error_of
from tests.racing import until
from tests.world import git, run_aop

AGENTS = "agentic/orchestrator/agents.yaml"
POLICY = "version: 1\nsupervisor: {max_active_features: 1, max_parallel_agent_turns: 1}\n"


class LoggedIn:
    """A shop whose agent has a log-in and no key."""

    def __init__(self, folder: Path, agent: str, file: Mapping[str, Any]) -> None:
        self.shop = Shop(folder, POLICY)
        (self.shop.root / AGENTS).write_text(f"version: 1\nlogin: {{{agent}: true}}\n")
        git(self.shop.root, "add", AGENTS)
        git(self.shop.root, "commit", "-qm", "Use the log-in")
        logged_in(folder / "home", agent, file)
        path = [str(bad_agent(folder / "bin", agent)), os.path.dirname(PYTHON), os.environ["PATH"]]
        self.env = {
            "HOME": str(folder / "home"),
            "AOP_AGENTS_HOME": str(folder / "agents"),
            "PATH": os.pathsep.join(path),
        }
        self.words = ["run", "-fl", str(self.shop.specs), "--agent-provider", agent, "--json"]

    def waits(self) -> list[tuple[str, list[str]]]:
        return [(wait["provider"], sorted(wait["features"])) for wait in self._inbox()["waits"]]

    def is_held(self, name: str) -> bool:
        return any(name in names for _, names in self.waits())

    def questions(self) -> list[str]:
        return [each["text"] for each in self._inbox()["questions"]]

    def _inbox(self) -> Any:
        return json.loads(run_aop(self.shop.root, "inbox", "--json").out)["data"]

    def has_secret(self) -> bool:
        files = [path for path in self.shop.root.rglob("*") if path.is_file()]
        return any(secret.encode() in path.read_bytes() for path in files for secret in (ACCESS, REFRESH))


def test_words_of_an_agent_alone_hold_back_its_own_feature_and_no_other(tmp_path: Path) -> None:
    at = LoggedIn(tmp_path, "claude", content("claude"))
    at.shop.wants("hearsay_one", "works_two")
    assert run_aop(at.shop.root, *at.words, env=at.env).code == 0
    until(lambda: at.waits() != [], seconds=SECONDS)
    # The other one is held back, or it ends.
    until(lambda: at.is_held("works_two") or at.shop.statuses().get("works_two") == "ready_to_merge", seconds=SECONDS)
    assert at.waits() == [("anthropic (hearsay_one)", ["hearsay_one"])]
    assert run_aop(at.shop.root, "resume", "hearsay_one", env=at.env).code == 0
    until(lambda: at.shop.events()["provider_wait_began", "hearsay_one"] == 2, seconds=SECONDS)
    assert at.shop.aop("stop").code == 0
    assert not at.has_secret()


def test_a_program_that_ends_with_an_error_and_says_why_holds_back_all_features_of_its_provider(
    tmp_path: Path,
) -> None:
    at = LoggedIn(tmp_path, "claude", content("claude"))
    at.shop.wants("limited_one", "limited_two")
    assert run_aop(at.shop.root, *at.words, env=at.env).code == 0
    until(lambda: at.waits() == [("anthropic", ["limited_one", "limited_two"])], seconds=SECONDS)
    assert at.shop.aop("stop").code == 0


def test_a_program_that_reports_in_another_format_works_and_its_usage_is_unknown(tmp_path: Path) -> None:
    at = LoggedIn(tmp_path, "claude", content("claude"))
    at.shop.wants("odd_one")
    ran = run_aop(at.shop.root, *at.words, "--wait", env=at.env)
    assert (ran.code, at.shop.statuses()) == (0, {"odd_one": "ready_to_merge"}), ran.err
    (row,) = json.loads(run_aop(at.shop.root, "status", "--json").out)["data"]["features"]
    assert row["spent"]["input_tokens"] == {"known": None, "unknown_turns": 2}


def test_a_log_in_that_expired_is_called_so_and_all_features_wait_once(tmp_path: Path) -> None:
    at = LoggedIn(tmp_path, "claude", content("claude", seconds=-60))
    at.shop.wants("works_one", "works_two")
    assert run_aop(at.shop.root, *at.words, env=at.env).code == 0
    until(lambda: at.questions() != [], seconds=SECONDS)
    assert at.shop.aop("stop").code == 0
    said = "The log-in of `claude` has expired, and its program did not renew it. Log in again first: aop agents login"
    assert [each.startswith(said) for each in at.questions()] == [True]
    assert not at.has_secret()


def test_a_log_in_of_two_accounts_is_refused_by_its_name_before_anything_happens(tmp_path: Path) -> None:
    at = LoggedIn(tmp_path, "codex", codex_tokens(10**10, account="acc-2"))
    at.shop.wants("works_one")
    ran = run_aop(at.shop.root, *at.words, "--wait", env=at.env)
    assert (ran.code != 0, error_of(ran)["code"]) == (True, "agent_login_ambiguous"), ran.out + ran.err
    assert not (at.shop.root / "agentic/features").exists()
