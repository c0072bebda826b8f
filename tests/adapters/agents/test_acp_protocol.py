"""ACP protocol: decisions on permission requests."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.staff import needs_mcp_server
from aop.adapters.agents.vendors.acp_commands import metered_vendor
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.agents.workers.acp_protocol import AcpTurn, Conversation, is_permitted
from aop.adapters.agents.workers.named_pipes import NamedPipes
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.workers import ProviderChoice
from tests.adapters.storage.crowds import more_open_files_than_select_takes

TREE = "/a/tree"


def turn(*, edits: bool, shell: bool) -> AcpTurn:
    return AcpTurn(
        prompt="",
        tree=TREE,
        mcp_url="",
        token="",
        model=None,
        edits=edits,
        shell=shell,
        is_over=lambda _usage: False,
    )


BUILDER, PLANNER = turn(edits=True, shell=True), turn(edits=False, shell=False)


@pytest.mark.parametrize(
    ("kind", "paths", "who", "allowed"),
    [
        ("edit", [f"{TREE}/src/a.txt"], BUILDER, True),
        ("edit", ["src/a.txt"], BUILDER, True),
        ("edit", [f"{TREE}/src/a.txt"], PLANNER, False),
        ("delete", ["src/a.txt"], PLANNER, False),
        ("read", ["src/a.txt"], PLANNER, True),
        ("read", ["/etc/passwd"], BUILDER, False),
        ("read", [f"{TREE}/../other"], BUILDER, False),
        ("read", ["src/a.txt", "/etc/passwd"], BUILDER, False),
        ("read", [f"{TREE}er/a.txt"], BUILDER, False),
        ("execute", [], BUILDER, True),
        ("execute", [], turn(edits=True, shell=False), False),
        ("fetch", [], BUILDER, False),
        ("other", [], PLANNER, True),
        (None, [7], PLANNER, True),
    ],
)
def test_what_leaves_the_tree_or_the_role_is_denied(
    kind: str | None, paths: list[object], who: AcpTurn, *, allowed: bool
) -> None:
    assert is_permitted({"kind": kind, "locations": [{"path": path} for path in paths]}, who) is allowed


@pytest.mark.parametrize("said", [None, [], "execute", {"locations": {"path": "/etc"}}, {"locations": [None]}])
def test_what_is_no_tool_call_is_judged_without_breaking(said: object) -> None:
    assert is_permitted(said, BUILDER) in (True, False)


@pytest.mark.parametrize(
    ("command", "provider"),
    [
        ("gemini --acp", "gemini-acp"),
        ("npx -y @google/gemini-cli@0.61.0 --acp", "gemini-acp"),
        ("node /opt/claude-agent-acp", "claude-acp"),
        ("claude-code-acp", "claude-acp"),
        ("codex-acp", None),
        ("my-agent --like gemini", None),
    ],
)
def test_the_row_of_an_agent_is_found_by_its_program_alone(command: str, provider: str | None) -> None:
    keys = {"GEMINI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    found = metered_vendor(command.split(), keys, vendors_of(None, {}))
    assert (found and found.provider) == provider
    assert metered_vendor(command.split(), {}, vendors_of(None, {})) is None


class Scripted:
    """The streams of an agent that answers everything, and reports what it likes."""

    def __init__(self, reported: object) -> None:
        self._reported = reported
        self._asked: list[Any] = []

    def send(self, data: bytes) -> None:
        self._asked.append(msgspec.json.decode(data))

    offer = send

    def lines(self) -> Iterator[bytes]:
        capable = {"agentCapabilities": {"mcpCapabilities": {"http": True}}}
        for result in (capable, {"sessionId": "s"}, {"stopReason": "end_turn", "usage": self._reported}):
            yield msgspec.json.encode({"id": self._asked[-1]["id"], "result": result})


@pytest.mark.parametrize("tokens", [10**13, -1, True, "many", None])
def test_a_usage_that_makes_no_sense_is_not_believed(tokens: object) -> None:
    held = Conversation(Scripted({"inputTokens": tokens, "outputTokens": 7}), lambda _text: None)
    held.run(BUILDER)
    assert held.usage == Usage(output_tokens=7, self_reported=True)


def test_an_agent_that_does_not_read_is_told_to_stop_without_waiting_for_it(tmp_path: Path) -> None:
    with NamedPipes(tmp_path) as pipes:
        speaking = threading.Thread(target=pipes.send, args=(b"x" * 1_000_000,))
        speaking.start()
        held = Conversation(pipes, lambda _text: None)
        held._session = "s"
        cancelling = threading.Thread(target=held.cancel, daemon=True)
        cancelling.start()
        cancelling.join(300)
        assert not cancelling.is_alive()
    speaking.join()


def test_an_agent_is_told_and_heard_by_a_process_that_has_more_than_a_thousand_files_open(tmp_path: Path) -> None:
    with more_open_files_than_select_takes(), NamedPipes(tmp_path) as pipes:
        agent = os.open(tmp_path / "in", os.O_RDONLY | os.O_NONBLOCK)
        pipes.send(b"told\n")
        told = os.read(agent, 100)
        os.close(agent)
        (tmp_path / "out").write_bytes(b"heard\n")
        assert (told, next(pipes.lines())) == (b"told\n", b"heard")


@pytest.mark.parametrize(("command", "by_mcp"), [("acp: agent", True), ("agent", False), ("", False)])
def test_only_an_agent_that_speaks_the_protocol_comes_in_by_mcp(command: str, *, by_mcp: bool) -> None:
    choice = ProviderChoice(provider="custom", provider_config_ref="MINE")
    choices = dict.fromkeys(Role, choice)
    assert needs_mcp_server(choices, {"MINE": command}) is by_mcp


class Loading:
    """The streams of an agent that has sessions, and knows some of them."""

    def __init__(self, *known: str, can_load: bool = True) -> None:
        self._known = known
        self._can_load = can_load
        self.asked: list[Any] = []

    def send(self, data: bytes) -> None:
        self.asked.append(msgspec.json.decode(data))

    offer = send

    def lines(self) -> Iterator[bytes]:
        while True:
            asked = self.asked[-1]
            yield msgspec.json.encode({"id": asked["id"], **self._answer(asked["method"], asked["params"])})

    def _answer(self, method: str, params: Any) -> Any:
        if method == "initialize":
            return {"result": {"agentCapabilities": {"mcpCapabilities": {"http": True}, "loadSession": self._can_load}}}
        if method == "session/load" and params["sessionId"] not in self._known:
            return {"error": {"code": -32602, "message": "Unknown session."}}
        answers = {
            "session/load": None,
            "session/new": {"sessionId": "new"},
            "session/prompt": {"stopReason": "end_turn"},
        }
        return {"result": answers[method]}


@pytest.mark.req("AOP-231")
@pytest.mark.parametrize(
    ("agent", "resumed", "methods", "session"),
    [
        (Loading("old"), "old", ["session/load"], "old"),
        (Loading(), "old", ["session/load", "session/new"], "new"),
        (Loading("old"), "", ["session/new"], "new"),
        (Loading("old", can_load=False), "old", ["session/new"], ""),
    ],
    ids=["goes on", "is new where the agent does not know it", "is new", "cannot go on"],
)
def test_a_session_goes_on_where_the_agent_has_it(
    agent: Loading, resumed: str, methods: list[str], session: str
) -> None:
    conversation = Conversation(agent, lambda _text: None)
    conversation.run(msgspec.structs.replace(BUILDER, resumed=resumed))
    assert [asked["method"] for asked in agent.asked[1:-1]] == methods
    assert conversation.session_id == session
    assert agent.asked[-1]["params"]["sessionId"] == session or session == ""
