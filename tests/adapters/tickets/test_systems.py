"""Ticket systems through real MCP: answers, writes that happen once, failures."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.tickets.mcp.upstream import Upstream
from aop.adapters.tickets.systems.local.database import LocalAnswer
from aop.adapters.tickets.systems.local.server import Local
from aop.adapters.tickets.systems.local_ports import LocalDocs, LocalTracker, LocalVcs
from aop.core.errors import RemoteNotFound, RemoteRejected, RemoteToolsMissing, RemoteUnavailable
from aop.tickets.ports import MergeRequest
from tests.tickets.local_worlds import BRANCH, KEY, PAGE, PROJECT, local_world, server_command, upstream_of
from tests.tickets.test_plans_and_modes import file

REQUEST = MergeRequest(
    number="1",
    url=f"local://{PROJECT}/-/merge_requests/1",
    state="opened",
    source_branch=BRANCH,
    target_branch="main",
)


@pytest.mark.req("SCAF-03", "SCAF-86")
def test_everything_that_a_scaffold_writes_is_written_once(tmp_path: Path) -> None:
    local = local_world(tmp_path)

    async def write(upstream: Upstream) -> list[Any]:
        tracker, vcs = LocalTracker(upstream), LocalVcs(upstream)
        await tracker.add_comment(KEY, "Started.", marker="run-1/start")
        await vcs.create_branch(PROJECT, BRANCH, base=None)
        files = [file("src/a.py", "a = 1\n"), file('"quoted" name', "b\n")]
        commit = await vcs.commit_changes(PROJECT, BRANCH, "Scaffold", files, marker="run-1/commit")
        opened = await vcs.create_merge_request(PROJECT, BRANCH, base=None, title="T", description="D")
        for _ in range(2):
            await tracker.update_task_description(KEY, "added: 1")
            await tracker.update_status(KEY, "in review")
        return [commit, msgspec.structs.replace(opened, head="")]

    with upstream_of(server_command(tmp_path)) as upstream:
        first = asyncio.run(write(upstream))
        with pytest.raises(RemoteRejected, match="Someone else"):
            asyncio.run(write(upstream))
        vcs = LocalVcs(upstream)
        again = asyncio.run(vcs.commit_changes(PROJECT, BRANCH, "Scaffold", [], marker="run-1/commit"))
        opened = asyncio.run(vcs.create_merge_request(PROJECT, BRANCH, base=None, title="T", description="D"))
    assert (first, opened) == ([again, REQUEST], REQUEST)
    ticket: Any = local.tickets.get(KEY)
    assert (ticket["status"], ticket["comments"]) == ("In Review", ["Started.\n\nAOP-Run: run-1/start"])
    assert ticket["description"].endswith("\n\nadded: 1\n")
    head: Any = local.repositories.branch(PROJECT, BRANCH)
    assert head["commit"] == {"id": again, "message": "Scaffold\n\nAOP-Run: run-1/commit\n"}


def test_pages_are_found_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    local_world(tmp_path)
    with upstream_of(server_command(tmp_path)) as upstream:
        docs = LocalDocs(upstream)
        assert asyncio.run(docs.get_architecture_context(PAGE)) == "# Standards\n\nUse hexagons.\n"
        assert asyncio.run(docs.get_project_context("orders")) == "# The orders service\n\nIt takes orders.\n"
        assert asyncio.run(docs.get_project_context("nobody")) == ""
        for page in ("absent", "../local", "/etc/passwd"):
            with pytest.raises(RemoteNotFound) as refused:
                asyncio.run(docs.get_architecture_context(page))
            assert refused.value.facts["status"] == 404


@pytest.mark.req("SCAF-44")
def test_a_project_that_is_not_there_is_an_error_and_not_a_missing_branch(tmp_path: Path) -> None:
    local_world(tmp_path)
    with upstream_of(server_command(tmp_path)) as upstream, pytest.raises(RemoteNotFound):
        asyncio.run(LocalVcs(upstream).validate_branch_existence("group/absent", BRANCH))


@pytest.mark.req("SCAF-05")
def test_a_port_shows_and_calls_the_tools_of_its_own_server_only(tmp_path: Path) -> None:
    local_world(tmp_path)
    with upstream_of(server_command(tmp_path)) as upstream:
        docs = LocalDocs(upstream)
        assert [tool.name for tool in asyncio.run(docs.get_mcp_tools())] == ["docs_get_page", "docs_search"]
        assert asyncio.run(docs.execute_tool("docs_search", {"words": "hexa"})) == '{"pages":[]}'
        for other in ("tracker_get_ticket", "docs_delete"):
            with pytest.raises(RemoteToolsMissing):
                asyncio.run(docs.execute_tool(other, {"key": KEY}))


def test_a_server_that_dies_is_started_again_for_the_next_call(tmp_path: Path) -> None:
    local_world(tmp_path)
    with upstream_of(server_command(tmp_path)) as upstream:
        tracker = LocalTracker(upstream)
        asyncio.run(tracker.get_ticket(KEY))
        for child in children_of(os.getpid(), str(tmp_path)):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(RemoteUnavailable):
            asyncio.run(tracker.get_ticket(KEY))
        assert asyncio.run(tracker.get_ticket(KEY)).status == "To Do"


def test_a_server_that_does_not_start_is_unavailable(tmp_path: Path) -> None:
    command = server_command(tmp_path)
    with upstream_of(msgspec.structs.replace(command, args=("-c", ""))) as upstream, pytest.raises(RemoteUnavailable):
        asyncio.run(upstream.call("tracker_get_ticket", {"key": KEY}))
    absent = msgspec.structs.replace(command, command="no-such-program")
    with upstream_of(absent) as upstream, pytest.raises(RemoteUnavailable):
        asyncio.run(upstream.call("tracker_get_ticket", {"key": KEY}))


def test_a_state_that_no_transition_leads_to_is_named_with_those_that_exist(tmp_path: Path) -> None:
    local_world(tmp_path)
    with upstream_of(server_command(tmp_path)) as upstream, pytest.raises(RemoteRejected) as refused:
        asyncio.run(LocalTracker(upstream).update_status(KEY, "Shipped"))
    assert refused.value.facts == {"states": ["In Progress", "In Review", "Done"]}


@pytest.mark.parametrize("branch", ["--force", "a b", "a..b", "-x"])
def test_local_takes_no_option_for_a_branch(branch: str, tmp_path: Path) -> None:
    local: Local = local_world(tmp_path)
    with pytest.raises(LocalAnswer, match="400"):
        local.repositories.create_branch(PROJECT, branch, "main")


def children_of(parent: int, word: str) -> list[int]:
    """Return the children of a process that have a word in their command line."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            if word in stat.with_name("cmdline").read_text():
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found
