"""A build over HTTP: its questions, notes and errors, for programs with a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.forge.builds.built import Built
from tests.forge.builds.cycles import begun, coder
from tests.mcpserver.clients import Served, served
from tests.web.forge.forge_servers import EVES_KEY, KEY, SECONDS, bearer, events, get, put_key, put_project, websocket
from tests.world import World, make_repository

READER = "fg_" + "read" * 10


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("builds") / "repo"))
    put_key(made, KEY, scopes=("read", "write"))
    put_key(made, READER)
    put_key(made, EVES_KEY, owner="eve", scopes=("read", "write"))
    put_project(made, "den", owner="eve")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


def send(server: Served, method: str, path: str, body: Any = None, *, key: str = KEY) -> httpx2.Response:
    return httpx2.request(method, server.origin + path, json=body or {}, headers=bearer(key), timeout=SECONDS)


def code_of(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def ask(world: World, build: str, question: str, **more: Any) -> str:
    answer = world.app.gateway.call(coder(build), "forge_ask_clarification", {"question": question, **more})
    assert answer.ok, answer.error
    return str(answer.data["question_id"])


def without_time(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "at"}


@pytest.mark.req("FORGE-162", "FORGE-172", "FORGE-157", "FORGE-160")
def test_a_program_is_told_of_a_question_and_answers_it(world: World, server: Served) -> None:
    build = begun(world, "shop")
    with events(server, "/api/events?project=shop") as mine:
        question = ask(world, build, "Which currency?", options=["EUR", "USD"])
        log, asked = islice(mine, 2)
        answered = send(server, "POST", "/projects/shop/build/clarify", {"question_id": question, "answer": "EUR"})
        assert (answered.status_code, answered.json()["answer"]) == (200, "EUR")
        said, resolved = islice(mine, 2)
    assert [each.event for each in (log, asked, said, resolved)] == [
        "build_log",
        "build_clarification_request",
        "build_log",
        "build_clarification_resolved",
    ]
    assert without_time(asked.data) == {
        "build_id": build,
        "question_id": question,
        "question": "Which currency?",
        "options": ["EUR", "USD", "Let AI decide"],
    }
    assert without_time(resolved.data) == {"build_id": build, "question_id": question, "answer": "EUR"}


@pytest.mark.req("FORGE-161", "FORGE-162")
def test_an_answer_to_no_open_question_of_the_project_is_404(world: World, server: Served) -> None:
    build, other = begun(world, "bakery"), begun(world, "garage")
    mine, foreign = ask(world, build, "Which flour?"), ask(world, other, "Which oil?")
    path = "/projects/bakery/build/clarify"
    for question in (foreign, "q999", "nothing"):
        assert code_of(send(server, "POST", path, {"question_id": question, "answer": "x"})) == (
            404,
            "unknown_question",
        )
    for project, key in (("den", KEY), ("bakery", EVES_KEY)):
        wrong = send(
            server, "POST", f"/projects/{project}/build/clarify", {"question_id": mine, "answer": "x"}, key=key
        )
        assert code_of(wrong) == (404, "unknown_project")
    assert send(server, "POST", path, {"question_id": mine, "answer": "x" * 1000}).status_code == 200
    assert code_of(send(server, "POST", path, {"question_id": mine, "answer": "y"})) == (404, "already_answered")


@pytest.mark.parametrize(
    "body",
    [{"question_id": "q1"}, {"question_id": "q1", "answer": ""}, {"question_id": "q1", "answer": "x" * 1001}, {}],
)
@pytest.mark.req("FORGE-162")
def test_an_answer_has_one_to_a_thousand_characters(server: Served, body: dict[str, str]) -> None:
    assert code_of(send(server, "POST", "/projects/shop/build/clarify", body)) == (400, "invalid_arguments")


def test_a_key_that_only_reads_answers_and_dismisses_nothing(server: Served) -> None:
    wanted: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("POST", "/projects/shop/build/clarify", {"question_id": "q1", "answer": "x"}),
        ("POST", "/projects/shop/build/interject", {"text": "x"}),
        ("PUT", "/projects/shop/notepad", {"content": "x"}),
        ("POST", "/api/build-cycles/shop-b1/errors/e1/dismiss", {}),
    )
    codes = [code_of(send(server, method, path, body, key=READER)) for method, path, body in wanted]
    assert codes == [(403, "forge_key_scope_missing")] * 4


@pytest.mark.req("FORGE-169")
def test_an_open_question_is_sent_again_to_a_reader_that_comes_back(world: World, server: Served) -> None:
    build = begun(world, "harbour")
    done = ask(world, build, "Which quay?")
    send(server, "POST", "/projects/harbour/build/clarify", {"question_id": done, "answer": "North."})
    waiting = ask(world, build, "Which crane?")
    with world.app.record.read() as view:
        newest = next(iter(view.journal(newest=1))).seq
    begin = {"Last-Event-ID": str(newest)}
    with events(server, "/api/events?project=harbour", headers=begin) as mine:
        again = next(mine)
        world.ok("forge.build_pause", build_id=build)
        after = next(mine)
    assert (again.id, again.event, again.data["question_id"]) == (newest, "build_clarification_request", waiting)
    assert (after.event, without_time(after.data)["build_id"]) == ("build_paused", build)
    with websocket(server, "/ws?project=harbour") as socket:
        first = json.loads(socket.recv(timeout=SECONDS))
    assert (first["event"], first["data"]["question_id"]) == ("build_clarification_request", waiting)
    with events(server, "/api/events?project=harbour", headers={"Last-Event-ID": "0"}) as everything:
        kinds = [each.event for each in islice(everything, 11)]
    assert kinds.count("build_clarification_request") == 2


@pytest.mark.req("FORGE-169")
def test_nobody_is_sent_the_question_of_another_owner(world: World, server: Served) -> None:
    ask(world, begun(world, "vault"), "Which lock?")
    with events(server, key=EVES_KEY) as eves:
        world.ok("forge.note_put", project_id="vault", content="Mine.")
        put_project(world, "cave", owner="eve")
        send(server, "PUT", "/projects/cave/notepad", {"content": "Hers."}, key=EVES_KEY)
        first = next(eves)
    assert (first.event, first.data["project_id"]) == ("note_changed", "cave")


@pytest.mark.req("FORGE-217", "FORGE-222", "FORGE-220")
def test_a_note_is_kept_for_a_project_and_an_owner_and_read_by_agents(world: World, server: Served) -> None:
    build = begun(world, "library")
    path = "/projects/library/notepad"
    assert get(server, path, key=READER).json() == {"project_id": "library", "content": "", "updated_at": ""}
    send(server, "PUT", path, {"content": "First."})
    stored = send(server, "PUT", path, {"content": "Use ISBN-13."})
    assert (stored.status_code, stored.json()["content"]) == (200, "Use ISBN-13.")
    assert get(server, path).json() == stored.json()
    read = world.app.gateway.call(coder(build), "forge_read_notepad", {})
    assert (read.ok, read.data["content"]) == (True, "Use ISBN-13.")
    assert code_of(get(server, path, key=EVES_KEY)) == (404, "unknown_project")
    assert code_of(send(server, "PUT", path, {"content": "x" * 20_001})) == (400, "invalid_arguments")
    other = world.app.gateway.call(coder(begun(world, "archive")), "forge_read_notepad", {})
    assert other.data["content"] == ""


@pytest.mark.req("FORGE-181", "FORGE-182", "FORGE-184", "FORGE-185", "FORGE-186")
def test_errors_are_listed_and_dismissed(world: World, server: Served) -> None:
    build = begun(world, "mill")
    path = f"/api/build-cycles/{build}/errors"
    with events(server, "/api/events?project=mill") as mine:
        seen = [{"message": "src/a.py:3: no name x"}, {"message": "The model is gone.", "severity": "fatal"}]
        world.ok("forge.error_track", build_id=build, errors=seen)
        tracked = list(islice(mine, 2))
        listed = get(server, path, key=READER).json()
        gone = send(server, "POST", f"{path}/e1/dismiss")
        resolved = next(mine)
    assert (listed["build_id"], listed["unresolved"]) == (build, 2)
    assert [without_time(each.data) for each in tracked] == sorted(listed["errors"], key=lambda each: each["error_id"])
    assert (gone.status_code, gone.json()["resolution_method"]) == (200, "dismissed")
    facts = {"build_id": build, "error_id": "e1", "method": "dismissed", "summary": ""}
    assert (resolved.event, without_time(resolved.data)) == ("build_error_resolved", facts)
    assert [each["error_id"] for each in get(server, path).json()["errors"]] == ["e2", "e1"]
    assert code_of(send(server, "POST", f"{path}/e2/dismiss")) == (400, "error_is_fatal")
    assert code_of(send(server, "POST", f"{path}/e9/dismiss")) == (404, "unknown_build_error")
    assert code_of(get(server, path, key=EVES_KEY)) == (404, "unknown_build")
    assert code_of(send(server, "POST", f"{path}/e1/dismiss", key=EVES_KEY)) == (404, "unknown_build")


@pytest.mark.req("FORGE-231")
def test_a_text_reaches_the_active_build_of_a_project(world: World, server: Served) -> None:
    build = begun(world, "farm")
    sent = send(server, "POST", "/projects/farm/build/interject", {"text": "No ORM."})
    assert (sent.status_code, sent.json()["build_id"]) == (200, build)
    nothing = send(server, "POST", "/projects/den/build/interject", {"text": "No ORM."}, key=EVES_KEY)
    assert code_of(nothing) == (404, "no_active_build")


@pytest.mark.req("FORGE-201")
def test_a_program_reads_a_build_with_its_branch_and_its_commits(world: World, server: Served) -> None:
    build = begun(world, "orchard")
    read = get(server, f"/api/build-cycles/{build}", key=READER)
    assert read.status_code == 200, read.text
    body = read.json()
    assert (body["build_id"], body["status"], body["branch"], body["branch_state"], body["commits"]) == (
        build,
        "active",
        f"forge/build-{build}",
        "as_left",
        [],
    )
    assert code_of(get(server, f"/api/build-cycles/{build}", key=EVES_KEY)) == (404, "unknown_build")
    assert code_of(get(server, "/api/build-cycles/nobody-b1", key=READER)) == (404, "unknown_build")


def test_a_program_reads_the_seal_of_a_build_and_whether_it_holds(tmp_path: Path) -> None:
    built = Built(tmp_path / "repo")
    put_key(built.world, READER)
    put_key(built.world, EVES_KEY, owner="eve", scopes=("read", "write"))
    path = f"/api/build-cycles/{built.build_id}/seal"
    with served(built.root) as server:
        assert code_of(get(server, path, key=READER)) == (404, "build_not_sealed")
        built.finish()
        seal = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
        read = get(server, path, key=READER)
        assert (read.status_code, read.json()) == (
            200,
            {"build_id": built.build_id, "valid": True, "flaws": [], "seal": json.loads(msgspec.json.encode(seal))},
        )
        assert code_of(get(server, path, key=EVES_KEY)) == (404, "unknown_build")
    built.world.close()
