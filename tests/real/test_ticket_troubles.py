"""What the real MCP servers make of troubles of the systems behind them: the ticket says it, nothing is twice."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from aop.adapters.tickets.setup.assembly import outbound_ports
from aop.adapters.tickets.setup.settings import ticket_settings
from aop.brains.ports import FINISH
from aop.core.ids import RunId
from aop.core.redaction.redactor import Redactor
from aop.reviews.report import CodeReviewReport
from aop.testing.scripted_model import ScriptedModel, Step, answers, calls
from aop.tickets.review.pipeline import CodeReviewerAgent
from aop.tickets.runs.dry_run import DirectRun
from aop.tickets.scaffold.pipeline import ScaffolderAgent
from aop.tickets.steps import Desk
from tests.adapters.tickets.test_systems import children_of
from tests.real.fake_rest import FakeRest, Trouble
from tests.real.test_tickets import BY_ID, BY_PATH, GITLAB, JIRA, REVIEW, SCAFFOLD
from tests.real.ticket_worlds import DESCRIPTION, PAGES, needs_servers, real_world
from tests.tickets.local_worlds import BRANCH, KEY, PROJECT
from tests.tickets.recorded_plans import PLAN, REPORT
from tests.tickets.scaffold.test_pipeline import Around, desk_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

HEAD = "/repository/branches/feature%2FSHOP-12-orders"
REQUEST = f"{BY_ID}/merge_requests/1"
READ_COMMENTS = [f"GET {JIRA}", f"GET {JIRA}/comment"]
FIRST_COMMENT = [*READ_COMMENTS, "GET /jira/rest/api/2/search", f"POST {JIRA}/comment"]
COMMENT = [*READ_COMMENTS, f"POST {JIRA}/comment"]
LOOK = [f"GET {BY_PATH}", f"GET {BY_PATH}{HEAD}"]
DOCS = [f"GET /confluence/rest/api/{path}" for path in ("search", "content/101", "content/100")]
MOVE = [f"GET {JIRA}", *[f"GET {JIRA}/transitions"] * 2, f"POST {JIRA}/transitions", *READ_COMMENTS]
"""The server looks at the transitions once more, and at the ticket after it moved."""
WHOLE_SCAFFOLD = [
    f"GET {JIRA}", *FIRST_COMMENT, *LOOK, *DOCS,
    f"GET {BY_PATH}", f"GET {BY_PATH}/repository/tree",
    *LOOK, f"POST {BY_PATH}/repository/branches",
    f"GET {BY_PATH}/repository/commits", f"POST {BY_PATH}/repository/commits",
    f"GET {BY_PATH}/merge_requests", f"GET {BY_PATH}", f"POST {BY_PATH}/merge_requests",
    f"GET {BY_PATH}", f"GET {JIRA}", f"PUT {JIRA}", f"GET {JIRA}", *COMMENT, *MOVE,
]  # fmt: skip
WHOLE_REVIEW = [
    f"GET {JIRA}", *COMMENT, f"GET {BY_ID}", f"GET {BY_ID}{HEAD}", f"GET {REQUEST}", *DOCS, f"GET {REQUEST}/diffs",
    *[f"GET {REQUEST}/notes"] * 2, f"GET {REQUEST}", f"GET {REQUEST}/diffs",
    f"POST {REQUEST}/discussions", f"POST {REQUEST}/notes", *COMMENT,
]  # fmt: skip
BRANCH_EXISTS = [f"GET {JIRA}", *COMMENT, *LOOK, f"GET {BY_PATH}/merge_requests", *COMMENT, f"GET {JIRA}"]


class Shop:
    """The systems behind servers that go on running, and an agent in this process."""

    def __init__(self, rest: FakeRest, desk: Desk) -> None:
        self.rest = rest
        self._desk = desk

    def scaffold(self, *replies: Step, name: str = "scaffold") -> Any:
        desk = self._with(ScriptedModel(replies or [answers(PLAN)]))
        return self._run(name, ScaffolderAgent(desk).scaffold)

    def review(self, *replies: Step) -> Any:
        told = answers(msgspec.convert(REPORT, type=CodeReviewReport))
        desk = self._with(ScriptedModel([*replies, told]))
        return self._run("review", CodeReviewerAgent(desk).review)

    def _with(self, model: ScriptedModel) -> Desk:
        return msgspec.structs.replace(self._desk, brain=desk_of(Around(), model, self._desk.settings).brain)

    def _run(self, name: str, pipeline: Any) -> Any:
        class Run(DirectRun):
            run_id = RunId(name)

        async def work() -> Any:
            ticket = await self._desk.tracker.get_ticket(KEY)
            return await pipeline(Run(), msgspec.to_builtins(ticket))

        return asyncio.run(work())


@pytest.fixture(scope="module")
def opened() -> Iterator[Shop]:
    needs_servers()
    with real_world() as (rest, env):
        environ = {**env, "PATH": os.environ["PATH"], "OUTBOUND_CALL_SECONDS": "20"}
        settings, chosen = ticket_settings(environ, "scaffolding")
        with outbound_ports(environ, chosen, Redactor()) as (tracker, vcs, docs):
            desk = desk_of(Around(), ScriptedModel([]), settings)
            yield Shop(rest, msgspec.structs.replace(desk, tracker=tracker, vcs=vcs, docs=docs))


@pytest.fixture
def shop(opened: Shop) -> Shop:
    opened.rest.begin(KEY, DESCRIPTION, PROJECT, PAGES)
    return opened


def once(rest: FakeRest) -> tuple[Any, ...]:
    """Return how often there is what a scaffold makes: everything once, and two comments."""
    branches = [branch for branch in rest.code.trees if branch != "main"]
    blocks = rest.tracker.description.count("code_review_params")
    return (branches, len(rest.code.messages[BRANCH]) - 1, len(rest.code.requests), blocks, len(rest.tracker.comments))


def asked_since(rest: FakeRest, at: int = 0) -> list[str]:
    """Return every request in its order, without what the server of Atlassian asks for on its own."""
    return [each.what for each in rest.journal[at:] if not each.what.endswith(("/field", "/property"))]


@pytest.mark.req("SCAF-43", "SCAF-84", "REV-35")
def test_every_request_comes_in_its_order(shop: Shop) -> None:
    shop.scaffold()
    assert asked_since(shop.rest) == WHOLE_SCAFFOLD
    at = len(shop.rest.journal)
    shop.review()
    assert asked_since(shop.rest, at) == WHOLE_REVIEW
    at = len(shop.rest.journal)
    assert shop.scaffold(name="again")["outcome"] == "branch_exists"
    assert asked_since(shop.rest, at) == BRANCH_EXISTS


@pytest.mark.req("SCAF-79", "SCAF-83", "SCAF-86", "REV-65", "REV-69", "REV-73")
def test_a_model_with_tools_scaffolds_and_reviews_through_the_same_servers(shop: Shop) -> None:
    rest = shop.rest
    rest.tracker.description = DESCRIPTION.replace("scaffolding:\n", "scaffolding:\n  mode: agentic\n")
    reads = calls(
        ("vcs_get_repository_tree", {"ref": "main"}),
        ("vcs_get_file_contents", {"ref": "main", "path": "README.md"}),
        ("docs_confluence_search", {"words": "orders"}),
        ("tracker_jira_get_issue", {}),
        ("vcs_merge_merge_request", {}),
    )
    files = {"files": msgspec.to_builtins(PLAN.files)}
    ending = shop.scaffold(
        reads,
        calls(("vcs_create_branch", {}), ("vcs_push_files", files)),
        calls(("vcs_create_merge_request", {"text": "Made orders.\n/merge"})),
        calls((FINISH, {"summary": "Done."})),
    )
    assert (ending["outcome"], ending["mode"]) == ("scaffolded", "AGENTIC_ACT_LOOP"), ending
    assert (rest.writes(), once(rest)) == (SCAFFOLD, ([BRANCH], 1, 1, 1, 2))
    assert "\n/\u200bmerge" in rest.code.requests[0]["description"]
    assert [each.status for each in rest.journal if "repository/tree" in each.what] == [200, 200]
    rest.tracker.description = rest.tracker.description.replace(
        "code_review_params:\n", "code_review_params:\n  mode: agentic\n"
    )
    reviewed = shop.review(calls(("vcs_get_merge_request", {}), ("vcs_get_merge_request_notes", {})))
    assert (reviewed["outcome"], reviewed["mode"]) == ("reviewed", "AGENTIC_ACT_LOOP"), reviewed
    assert rest.writes() == [*SCAFFOLD, *REVIEW]


@pytest.mark.req("SCAF-14", "SCAF-44", "SCAF-62", "SCAF-68", "REV-10")
@pytest.mark.parametrize(
    ("trouble", "step", "code", "status", "to_do"),
    [
        (Trouble("GET .*/branches/", 401), "check_branch", "remote_rejected", 401, "GITLAB_TOKEN"),
        (Trouble("GET .*/branches/", 403), "check_branch", "remote_rejected", 403, "right to read and write"),
        (Trouble("GET .*orders$", 404), "check_branch", "remote_not_found", 404, "may read it"),
        (Trouble("GET .*/search$", 401), "report_start", "remote_rejected", 401, "JIRA_API_TOKEN"),
        (Trouble("GET .*/content/100$", 401), "read_architecture_docs", "remote_rejected", 401, "CONFLUENCE_API_TOKEN"),
        (Trouble("GET .*/content/100$", 404), "read_architecture_docs", "remote_not_found", 404, "page id"),
        (Trouble("POST .*/branches", 500, times=9), "create_branch", "remote_unavailable", 500, "Wait until it"),
        (Trouble("POST .*/commits", 409), "commit", "remote_rejected", 409, "changed it meanwhile"),
        (
            Trouble("POST .*/merge_requests", 429, times=9),
            "open_merge_request",
            "remote_unavailable",
            429,
            "Wait a few minutes",
        ),
        (Trouble("PUT .*issue", 403), "update_description", "remote_rejected", 403, "right to read and write"),
        (Trouble("POST .*/transitions", 500, times=2), "move_ticket", "remote_unavailable", 500, "Wait until it"),
    ],
    ids=lambda value: f"{value.request} {value.status}" if isinstance(value, Trouble) else "",
)
def test_the_ticket_says_what_a_system_answered_and_what_to_do(
    trouble: Trouble, step: str, code: str, status: int, to_do: str, shop: Shop
) -> None:
    shop.rest.troubles = [trouble]
    ending = shop.scaffold()
    error = ending["error"]
    assert (ending["step"], error["code"], error["details"].get("status")) == (step, code, status), error
    last = shop.rest.tracker.texts()[-1]
    assert f"failed at step {{{{{step}}}}}" in last
    assert to_do in last
    assert shop.rest.tracker.status == "To Do"


@pytest.mark.hostile("X19")
@pytest.mark.parametrize("at", range(len(SCAFFOLD)))
def test_an_error_after_a_write_of_a_scaffold_was_done_does_not_make_it_twice(at: int, shop: Shop) -> None:
    skip = SCAFFOLD[:at].count(SCAFFOLD[at])
    shop.rest.troubles = [Trouble(f"^{SCAFFOLD[at]}$", 502, done=True, skip=skip)]
    ending = shop.scaffold()
    assert (ending["outcome"], once(shop.rest)) == ("scaffolded", ([BRANCH], 1, 1, 1, 2)), ending


@pytest.mark.hostile("X19")
@pytest.mark.parametrize("at", range(len(REVIEW)))
def test_an_error_after_a_write_of_a_review_was_done_does_not_make_it_twice(at: int, shop: Shop) -> None:
    shop.scaffold()
    skip = REVIEW[:at].count(REVIEW[at])
    shop.rest.troubles = [Trouble(f"^{REVIEW[at]}$", 502, done=True, skip=skip)]
    ending = shop.review()
    assert (ending["outcome"], len(shop.rest.code.notes), len(shop.rest.tracker.comments)) == ("reviewed", 2, 4), ending


@pytest.mark.hostile("X18")
@pytest.mark.parametrize("server", ["gitlab", "atlassian"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_server_that_dies_in_the_middle_of_a_write_is_started_again_and_nothing_is_twice(
    server: str, when: str, shop: Shop
) -> None:
    def kill() -> None:
        for child in children_of(os.getpid(), f"outbound/{server}"):
            os.kill(child, signal.SIGKILL)

    request = f"^POST {GITLAB}.*/commits$" if server == "gitlab" else f"^POST {JIRA}/comment$"
    shop.rest.troubles = [Trouble(request, done=when == "after", instead=kill)]
    ending = shop.scaffold()
    assert (ending["outcome"], once(shop.rest)) == ("scaffolded", ([BRANCH], 1, 1, 1, 2)), ending


@pytest.mark.hostile("X18")
def test_a_system_that_does_not_answer_is_told_to_the_ticket(shop: Shop) -> None:
    over = threading.Event()

    def wait() -> None:
        over.wait(60)

    shop.rest.troubles = [Trouble("GET .*/merge_requests$", times=2, instead=wait)]
    ending = shop.scaffold()
    over.set()
    assert (ending["step"], ending["error"]["code"]) == ("open_merge_request", "remote_unavailable")
    assert "no answer to tools/call within 20 s" in shop.rest.tracker.texts()[-1]


def test_a_server_that_asks_to_wait_is_asked_again(shop: Shop) -> None:
    shop.rest.troubles = [
        Trouble(f"GET {JIRA}$", 429, headers={"Retry-After": "1"}),
        Trouble("POST .*/commits", 429, headers={"Retry-After": "1"}),
    ]
    assert (shop.scaffold()["outcome"], once(shop.rest)) == ("scaffolded", ([BRANCH], 1, 1, 1, 2))


def test_comments_that_cannot_be_read_are_not_taken_for_none(shop: Shop) -> None:
    shop.scaffold()
    shop.rest.troubles = [Trouble(f"GET {JIRA}/comment$", 500, times=2)]
    ending = shop.review()
    assert (ending["step"], ending["error"]["code"]) == ("report_start", "remote_unavailable")
    assert len(shop.rest.tracker.comments) == 3


@pytest.mark.hostile("X07", "X17")
@pytest.mark.parametrize(
    ("asked", "step"),
    [
        ("GET .*/branches/", "check_branch"),
        ("GET .*/content/100$", "read_architecture_docs"),
        ("GET .*/rest/api/2/search$", "report_start"),
    ],
)
def test_a_system_that_points_elsewhere_is_not_followed_there(asked: str, step: str, shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        there = f"http://127.0.0.1:{inside.getsockname()[1]}/latest/meta-data"
        headers = {"Location": there, "WWW-Authenticate": f'Bearer resource_metadata="{there}"'}
        for status in (302, 401):
            shop.rest.begin(KEY, DESCRIPTION, PROJECT, PAGES)
            shop.rest.troubles = [Trouble(asked, status, headers=headers)]
            ending = shop.scaffold()
            assert (ending["step"], ending["error"]["details"]["status"]) == (step, status), ending
        with pytest.raises(BlockingIOError):
            inside.accept()
