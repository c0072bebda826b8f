"""The stdio client and LOCAL's server, each against the SDK; and misbehaving servers."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from aop.adapters.tickets.loop_thread import running_loop
from aop.adapters.tickets.mcp.stdio_client import ServerCommand, ServerError, ServerGone, ToolAnswer, connected
from aop.adapters.tickets.mcp.upstream import Upstream
from aop.core.errors import RemoteToolsMissing, RemoteUnavailable
from aop.core.redaction.redactor import Redactor
from aop.tickets.ports import KnownTool
from tests.racing import until
from tests.tickets.local_worlds import KEY, local_world, server_command

RUDE = Path(__file__).with_name("rude_server.py")
SDK_SERVER = """
import anyio
from mcp.server.mcpserver import MCPServer
server = MCPServer("sdk")
@server.tool()
def echo(text: str) -> dict[str, str]:
    if text == "bad": raise ValueError(text)
    return {"said": text}
anyio.run(server.run_stdio_async)
"""


def echoed(*args: str, text: str = "hello", seconds: float = 300.0) -> tuple[list[str], ToolAnswer]:
    """Return the tools of a server that runs in this Python, and what it says to a text."""
    environ = {"PATH": os.environ["PATH"]}
    command = ServerCommand(name="it", command=sys.executable, args=args, env=environ, call_seconds=seconds)

    async def ask() -> tuple[list[str], ToolAnswer]:
        async with connected(command) as client:
            return [tool.name for tool in client.tools], await client.call("echo", {"text": text})

    return asyncio.run(ask())


def rude(way: str, *, seconds: float = 300.0) -> tuple[list[str], ToolAnswer]:
    return echoed(str(RUDE), way, seconds=seconds)


def test_our_client_speaks_to_a_server_of_the_sdk() -> None:
    tools, answer = echoed("-c", SDK_SERVER)
    assert (tools, answer.structured_content, answer.is_error) == (["echo"], {"said": "hello"}, False)
    _, refused = echoed("-c", SDK_SERVER, text="bad")
    assert refused.is_error


def test_a_client_of_the_sdk_speaks_to_local(tmp_path: Path) -> None:
    local_world(tmp_path)
    command = server_command(tmp_path)
    parameters = StdioServerParameters(command=command.command, args=list(command.args), env=dict(command.env))

    async def ask() -> tuple[int, bool, str, bool]:
        async with Client(stdio_client(parameters), mode="legacy") as client:
            listed = (await client.list_tools()).tools
            found = await client.call_tool("tracker_get_ticket", {"key": KEY})
            wrong = await client.call_tool("tracker_get_ticket", {"ticket": KEY})
            return len(listed), found.is_error, str(found.content[0]), wrong.is_error

    count, is_error, text, is_wrong = asyncio.run(ask())
    assert (count, is_error, '"status":"To Do"' in text.replace("\\", ""), is_wrong) == (20, False, True, True)


def test_every_page_of_the_list_is_read() -> None:
    assert rude("pages")[0] == ["first", "echo"]


@pytest.mark.hostile("X14")
def test_what_a_server_asks_of_us_is_refused_and_a_ping_is_answered() -> None:
    assert rude("asks")[1].text == "[-32601, {}]"


@pytest.mark.hostile("X13")
def test_an_answer_with_another_number_and_what_is_no_message_are_passed_over() -> None:
    assert rude("wrong-id")[1].text == "hello"


@pytest.mark.hostile("X21")
def test_a_link_to_a_resource_is_never_followed_and_is_no_text() -> None:
    assert rude("links")[1].text == "hello"


@pytest.mark.hostile("X17")
def test_an_address_that_a_server_names_for_signing_in_is_never_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        there = f"http://127.0.0.1:{inside.getsockname()[1]}/.well-known/oauth-protected-resource"
        with pytest.raises(ServerError, match="resource_metadata"):
            echoed(str(RUDE), "points", there)
        with pytest.raises(BlockingIOError):
            inside.accept()


@pytest.mark.hostile("X09")
def test_a_server_that_describes_its_tools_otherwise_when_it_is_started_anew_is_refused(tmp_path: Path) -> None:
    words = (str(RUDE), "changes", str(tmp_path / "first"))
    command = ServerCommand(name="it", command=sys.executable, args=words, env={"PATH": os.environ["PATH"]})
    with running_loop("outbound") as portal:
        upstream = Upstream(command, (KnownTool("echo", {"text": "text"}),), portal, Redactor())
        for refusal in (RemoteUnavailable, RemoteToolsMissing, RemoteToolsMissing):
            with pytest.raises(refusal):
                asyncio.run(upstream.call("echo", {"text": "hello"}))
        upstream.close()


def test_a_call_is_broken_off_with_its_server_by_a_machine_that_is_cut_off_and_none_is_made_then(
    tmp_path: Path,
) -> None:
    words = (str(RUDE), "notes", str(tmp_path / "called"))
    command = ServerCommand(name="it", command=sys.executable, args=words, env={"PATH": os.environ["PATH"]})
    called = tmp_path / "called"
    with running_loop("outbound") as portal:
        upstream = Upstream(command, (KnownTool("echo", {"text": "text"}),), portal, Redactor(), called.exists)
        with pytest.raises(RemoteUnavailable, match="cut off"):
            asyncio.run(upstream.call("echo", {"text": "hello"}))
        server = int(called.read_text())
        until(lambda: not Path(f"/proc/{server}").exists())
        called.write_text("")
        with pytest.raises(RemoteUnavailable, match="cut off"):
            asyncio.run(upstream.call("echo", {"text": "hello"}))
        upstream.close()
    assert called.read_text() == ""


@pytest.mark.hostile("X22")
def test_a_storm_of_changes_changes_nothing() -> None:
    assert (rude("storms")[0], rude("storms")[1].text) == (["echo"], "hello")


@pytest.mark.hostile("X13")
def test_a_result_of_another_shape_is_an_error() -> None:
    with pytest.raises(ServerError, match="an invalid answer"):
        rude("no-result")


@pytest.mark.hostile("X11", "X18")
@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("hangs", "no answer to tools/call within 10 s"),
        ("dies", "it ended"),
        ("old", "it speaks MCP 1999-01-01"),
        ("twins", "it lists two tools with the same name"),
    ],
)
def test_a_server_that_cannot_be_worked_with_is_gone(way: str, why: str) -> None:
    with pytest.raises(ServerGone, match=why):
        rude(way, seconds=10.0 if way == "hangs" else 60.0)
