"""Tickets through the real MCP servers of Atlassian and GitLab: a scaffold, its review, and the order of requests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.brains.model_brain import ANSWER
from tests.brains import endpoints
from tests.real.fake_rest import TOKENS, FakeRest, Trouble
from tests.real.ticket_worlds import DESCRIPTION, managed, needs_servers, real_world
from tests.tickets import killed_command
from tests.tickets.local_worlds import BRANCH, KEY, PROJECT, plain_ids
from tests.tickets.recorded_plans import PLAN, REPORT
from tests.world import Ran, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

URL = f"https://git.example/{PROJECT}/-/merge_requests/1"
JIRA, GITLAB = f"/jira/rest/api/2/issue/{KEY}", "/gitlab/api/v4/projects"
BY_PATH, BY_ID = f"{GITLAB}/group%2Forders", f"{GITLAB}/7"
SCAFFOLD = [
    f"POST {JIRA}/comment",
    f"POST {BY_PATH}/repository/branches",
    f"POST {BY_PATH}/repository/commits",
    f"POST {BY_PATH}/merge_requests",
    f"PUT {JIRA}",
    f"POST {JIRA}/comment",
    f"POST {JIRA}/transitions",
]
REVIEW = [
    f"POST {JIRA}/comment",
    f"POST {BY_ID}/merge_requests/1/discussions",
    f"POST {BY_ID}/merge_requests/1/notes",
    f"POST {JIRA}/comment",
]


class Office:
    """The systems, a model that answers what it is told, and a repository in which the runs are kept."""

    def __init__(self, folder: Path, rest: FakeRest, env: dict[str, str]) -> None:
        self.rest = rest
        self.repo = managed(folder)
        self.env = env

    def aop(self, kind: str, answer: Any) -> Ran:
        with self._model(answer) as env:
            ran = run_aop(self.repo, "ticket", kind, KEY, "--json", env=env)
        assert not any(token in f"{ran.out}{ran.err}" for token in TOKENS.values())
        return ran

    def scaffold(self) -> Ran:
        return self.aop("scaffold", msgspec.to_builtins(PLAN))

    def review(self) -> Ran:
        return self.aop("review", REPORT)

    def scaffold_killed_after(self, step: str) -> int:
        with self._model(msgspec.to_builtins(PLAN)) as env:
            words = [sys.executable, killed_command.__file__, step, KEY]
            return subprocess.run(
                words, cwd=self.repo, env={**os.environ, **env}, capture_output=True, check=False
            ).returncode

    @contextmanager
    def _model(self, answer: Any) -> Iterator[dict[str, str]]:
        with endpoints.serving("vllm", endpoints.Step(calls=((ANSWER, answer),))) as server:
            yield {**self.env, "AOP_MODELS": "vllm:local", "VLLM_BASE_URL": server.url}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    needs_servers()
    with real_world() as (rest, env):
        yield Office(tmp_path, rest, env)
        assert rest.strangers == []


@pytest.mark.req("SCAF-03", "SCAF-86", "REV-03", "REV-51", "REV-52", "REV-73", "REV-76")
def test_a_ticket_is_scaffolded_and_the_same_merge_request_reviewed(office: Office) -> None:
    scaffolded = office.scaffold()
    assert (scaffolded.code, scaffolded.json["data"]["merge_request"]["url"]) == (0, URL), scaffolded.err
    rest = office.rest
    assert rest.writes() == SCAFFOLD
    assert (rest.tracker.status, len(rest.code.messages[BRANCH])) == ("In Review", 2)
    assert plain_ids(rest.code.messages[BRANCH][-1]).endswith("AOP-Run: scaffold-SHOP-12-1/commit")
    assert rest.code.trees[BRANCH] == {
        "README.md": "# Orders\n", "pyproject.toml": "[project]\n", "src/orders/__init__.py": "",
    }  # fmt: skip
    assert rest.tracker.description.startswith(DESCRIPTION.rstrip() + "\n\n{code:yaml}\ncode_review_params:\n")
    reviewed = office.review()
    assert (reviewed.code, reviewed.json["data"]["report"]["verdict"]) == (0, "REQUEST_CHANGES"), reviewed.err
    assert rest.writes() == [*SCAFFOLD, *REVIEW]
    (thread, note) = rest.code.notes
    assert (thread["position"]["new_path"], thread["position"]["new_line"]) == ("pyproject.toml", 1)
    assert "A start. @\u200ball\n/\u200bmerge" in note["body"]
    assert len(rest.tracker.comments) == 4


def test_a_scaffold_that_is_killed_after_a_write_goes_on_and_writes_nothing_twice(office: Office) -> None:
    assert [office.scaffold_killed_after(step) for step in ("commit", "report_success")] == [-9, -9]
    ran = office.scaffold()
    assert (ran.code, plain_ids(ran.json["data"]["run"])) == (0, "scaffold-SHOP-12-1"), ran.err
    assert office.rest.writes() == SCAFFOLD


@pytest.mark.parametrize("at_once", [1, 2], ids=["one after the other", "at the same moment"])
def test_two_machines_on_one_ticket_each_report_and_write_nothing_twice(tmp_path: Path, at_once: int) -> None:
    needs_servers()
    with real_world() as (rest, env):
        machines = [Office(tmp_path / name, rest, env) for name in ("here", "there")]
        with ThreadPoolExecutor(max_workers=at_once) as pool:
            ran = list(pool.map(Office.scaffold, machines))
    assert all(each.code in (0, 1) for each in ran), [each.err for each in ran]
    assert len(rest.code.messages[BRANCH]) == 2
    assert len(rest.code.requests) == 1
    for each in ran:
        # The one that comes second finds the branch, or is refused by name while the other makes it.
        run = (each.json.get("data") or each.json["evidence"])["run"]
        told = [text for text in rest.tracker.texts() if run in text]
        assert len(told) == 2, f"{run} begins and ends in the ticket"


def test_doctor_asks_each_system_one_thing_and_names_the_token_that_is_wrong(office: Office) -> None:
    def said() -> list[tuple[str, str]]:
        ran = run_aop(office.repo, "doctor", "--outbound", "--json", env=office.env)
        checks = ran.json["data"]["checks"]
        return [(each["health"], each["found"]) for each in checks if each["name"] == "outbound"][3:]

    assert said() == [
        ("ok", "jira: the token can search tickets"),
        ("ok", "confluence: the token can read the architecture page"),
        ("ok", "gitlab: the token belongs to `bot`"),
    ]
    office.rest.troubles = [Trouble("/gitlab", 401, times=9), Trouble("/jira", 401, times=9)]
    assert [(health, found.partition(":")[0]) for health, found in said()] == [
        ("failure", "jira"), ("ok", "confluence"), ("failure", "gitlab"),
    ]  # fmt: skip
    assert office.rest.writes() == []


@pytest.mark.req("SCAF-12", "SCAF-42", "SCAF-43")
def test_a_second_scaffold_and_a_second_review_write_nothing_to_the_code_again(office: Office) -> None:
    office.scaffold()
    office.review()
    written = len(office.rest.writes())
    assert office.scaffold().json["data"]["outcome"] == "branch_exists"
    assert office.rest.writes()[written:] == [f"POST {JIRA}/comment"] * 2
    assert office.review().code == 0
    threads = [note for note in office.rest.code.notes if note.get("position")]
    assert len(threads) == 1
