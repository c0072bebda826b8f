"""Brief calls of many clients at once: one commit for all, and separate failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from aop.adapters.files.locks import locked_file
from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import ToolRequest
from aop.mcpserver.brief_calls import BriefCalls
from tests.mcpserver.clients import Answer, Mcp, answer_of, over_http, served, token_for
from tests.world import World, git

FEATURES = ("one", "two", "three")


@pytest.fixture
def client(world: World) -> Iterator[Mcp]:
    for name in FEATURES:
        world.init(name)
    with served(world.root) as server, over_http(server.url, token_for(world, Role.ORCHESTRATOR)) as connected:
        yield connected


def noted_together(world: World, client: Mcp) -> dict[str, Answer]:
    """Send a note on each feature while nobody can write: those after the first wait in one line."""
    with locked_file(world.root / ".aop/record.db.lock"):
        notes = {name: {"feature_id": name, "note": f"On {name}", "operation_id": f"op-{name}"} for name in FEATURES}
        sent = {
            name: client.portal.start_task_soon(client._call, "feature.log_append", notes[name], {}) for name in notes
        }
    return {name: answer_of(call.result(timeout=300)) for name, call in sent.items()}


def noted(world: World) -> set[str]:
    with world.app.record.read() as view:
        entries = list(view.journal(kinds=("note_added",)))
    assert len(entries) == len({entry.event.operation_id for entry in entries})
    return {entry.event.operation_id for entry in entries}


def test_when_files_of_one_cannot_be_shown_only_who_changed_it_is_told(world: World, client: Mcp) -> None:
    folder = world.root / "agentic/features/two"
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("In the way.\n")
    answers = noted_together(world, client)
    assert {name: answer.code for name, answer in answers.items()} == {
        "one": None,
        "two": "internal_error",
        "three": None,
    }
    assert noted(world) == {"op-one", "op-two", "op-three"}
    folder.unlink()
    assert {name: answer.code for name, answer in noted_together(world, client).items()} == dict.fromkeys(FEATURES)
    assert noted(world) == {"op-one", "op-two", "op-three"}
    assert "On two" in (folder / "decisions.md").read_text()


def test_while_the_configuration_is_not_valid_each_is_told_so(world: World, client: Mcp) -> None:
    policy = world.root / "agentic/orchestrator/policy.yaml"
    policy.write_text("version: 1\nrbac: nobody\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "A policy that is not valid")
    refusals = {name: answer.code for name, answer in noted_together(world, client).items()}
    assert refusals == dict.fromkeys(FEATURES, "invalid_configuration")
    git(world.root, "rm", "-qf", "agentic/orchestrator/policy.yaml")
    git(world.root, "commit", "-qm", "No policy of our own")
    assert {name: answer.code for name, answer in noted_together(world, client).items()} == dict.fromkeys(FEATURES)


def test_what_is_in_line_when_the_server_stops_is_carried_out(world: World) -> None:
    done, begun, go_on = list[str](), threading.Event(), threading.Event()

    def answer_all(calls: Sequence[ToolRequest]) -> list[Envelope]:
        begun.set()
        assert go_on.wait(timeout=300)
        done.extend(asked.operation_id for asked in calls)
        return [Envelope(ok=True)] * len(calls)

    brief = BriefCalls(answer_all)
    calls = [
        ToolRequest(principal=world.app.person, tool="feature.log_append", arguments={}, operation_id=f"op-{number}")
        for number in range(3)
    ]

    async def ask_and_stop() -> None:
        first = asyncio.create_task(brief.answer(calls[0]))
        assert await asyncio.to_thread(begun.wait, 300)
        others = [asyncio.create_task(brief.answer(asked)) for asked in calls[1:]]
        await asyncio.wait([first, *others], timeout=0)

    asyncio.run(ask_and_stop())
    assert done == []
    go_on.set()
    brief.close()
    assert done == ["op-0", "op-1", "op-2"]


def test_a_note_is_kept_although_its_client_stops_waiting(world: World, client: Mcp) -> None:
    note = {"feature_id": "one", "note": "Kept", "operation_id": "op-1"}
    first = client.call("feature.log_append", {**note, "operation_id": "op-0"})
    with locked_file(world.root / ".aop/record.db.lock"):
        client.portal.start_task_soon(client._call, "feature.log_append", note, {}).cancel()
    again = client.call("feature.log_append", note)
    assert (again.data["seq"], noted(world)) == (first.data["seq"] + 1, {"op-0", "op-1"})
