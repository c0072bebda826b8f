"""The log of a feature on its page: words and calls of agents, and logs of gates of any size."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from aop.core.roles import Role
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, make_repository

GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("log") / "repo"))
    made.ready("one")
    logs = made.root / ".aop/logs/one"
    logs.mkdir(parents=True)
    said = [
        {"type": "replied", "model": "m-1", "text": "I begin with <b>the\u200b cart</b>"},
        {"type": "called", "tool": "repo.read_file", "arguments": '{"path": "src/a.txt"}'},
        {"type": "observed", "tool": "repo.read_file", "ok": True, "text": "one two three"},
    ]
    lines = [json.dumps(each) for each in said]
    (logs / "planner.log").write_text("\n".join([*lines, "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"]) + "\n")
    (logs / "builder.log").write_text("".join(f"line {number}\n" for number in range(100_000)))
    made.init("two")
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with served(world.root) as server, visit(world.root, server) as inside:
        yield inside


def link(html: str, word: str) -> str:
    found = re.search(rf'href="([^"]*)">{word}</a>', html)
    assert found, word
    return unescape(found[1])


def test_agents_words_are_shown_as_text_and_without_secrets(browser: Browser) -> None:
    page = browser.get("/features/one/log")
    assert "m-1 says: I begin with &lt;b&gt;the" in page.html
    assert "calls repo.read_file" in page.text
    assert "repo.read_file answers: one two three" in page.text
    assert "Zk3vX9qLmT7" not in page.html
    assert "\u200b" not in page.html
    # The newest lines of a long log, the newest last.
    assert "line 99999</li></ol>" in page.html
    assert ">line 5000<" not in page.html
    assert len(page.html) < 200_000


def test_a_log_is_filtered_and_paged_back_to_its_beginning(browser: Browser) -> None:
    page = browser.get("/features/one/log?role=builder&text=line")
    seen: list[int] = []
    for _page in range(400):
        numbers = [int(each) for each in re.findall(r"<li [^>]*>line (\d+)</li>", page.html)]
        seen = [*numbers, *seen]
        if "Older lines" not in page.html or len(seen) > 3000:
            break
        page = browser.get(link(page.html, "Older lines"))
    assert seen == list(range(seen[0], 100_000))
    first = browser.get("/features/one/log?role=builder&before=2000")
    assert ">line 0</li>" not in first.html or "Older lines" not in first.html
    calls = browser.get("/features/one/log?kind=calls")
    assert "calls repo.read_file" in calls.text
    assert "says: I begin" not in calls.text
    assert ">line 99999<" not in calls.html


def test_calls_are_listed_with_their_outcome(world: World, browser: Browser) -> None:
    world.call_as_worker("feature.approve", Role.BUILDER, "one", feature_id="one", tree="0" * 40, base="0" * 40)
    page = browser.get("/features/one/log?text=approve")
    assert "feature.approve" in page.text
    assert "forbidden_tool_for_role" in page.text or "person_required" in page.text


def test_an_empty_log_names_the_next_command(browser: Browser) -> None:
    page = browser.get("/features/two/log")
    assert "No agent has taken a turn" in page.text
    assert "aop run" in page.text


@pytest.mark.hostile("B10")
def test_a_log_of_a_gigabyte_is_read_in_parts(world: World, browser: Browser) -> None:
    run = world.ok("evidence.latest", feature_id="one")["by_mode"]["full"]
    path = Path(world.root, run["log_path"])
    with path.open("wb") as log:
        log.write(b"the beginning\n" * 10_000)
        log.truncate(GIGABYTE)
        log.seek(0, os.SEEK_END)
        log.write(b"\nthe end <script>alert(1)</script>\n")
    review = browser.get("/features/one")
    assert f"run by AOP on tree {run['tree'][:8]}" in review.text
    page = browser.get(f"/features/one/log?run={run['run_id']}&step=0")
    assert "the end &lt;script&gt;" in page.html
    begin = browser.get(link(page.html, "Beginning"))
    assert "the beginning" in begin.text
    after = browser.get(link(begin.html, "Next"))
    assert after.html.count("the beginning") > 1000
    assert begin.html.count("the beginning") * 14 == int(unescape(link(begin.html, "Next")).rpartition("=")[2])
    os.truncate(path, 0)
    assert "The log is empty" in browser.get(f"/features/one/log?run={run['run_id']}").text


@pytest.mark.hostile("B09")
@pytest.mark.parametrize("query", ["run=none", "run=full&step=99", "run=../../etc/passwd"])
def test_a_log_that_is_not_there_is_refused_by_name(browser: Browser, query: str) -> None:
    page = browser.get(f"/features/one/log?{query}")
    assert page.status == 400
    assert "no such gate run" in page.text
