"""Conformance of the ports on LOCAL, and on tapes of the real MCP servers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.tickets.setup.assembly import outbound_ports
from aop.adapters.tickets.setup.settings import ticket_settings
from aop.adapters.tickets.systems.local_ports import LocalDocs, LocalTracker, LocalVcs
from aop.core.errors import RemoteRejected, RemoteToolsMissing
from aop.core.redaction.redactor import Redactor
from aop.tickets.ports import DocsPort, TrackerPort, VcsPort
from tests.tickets import mcp_tape
from tests.tickets.local_worlds import KEY, PAGE, PROJECT, local_world, server_command, upstream_of
from tests.tickets.port_suite import CASES, Case

TAPES = Path(__file__).with_name("tapes")
REAL = {
    "VCS_PROVIDER": "GITLAB",
    "TRACKER_PROVIDER": "JIRA",
    "KNOWLEDGE_PROVIDER": "CONFLUENCE",
    "GITLAB_BASE_URL": "https://git.example",
    "GITLAB_TOKEN": "t",
    "JIRA_BASE_URL": "https://jira.example",
    "JIRA_API_TOKEN": "t",
    "CONFLUENCE_BASE_URL": "https://docs.example",
    "CONFLUENCE_API_TOKEN": "t",
    "WORKFLOW_STATE_INITIAL": "To Do",
    "WORKFLOW_STATE_SUCCESS": "In Review",
    "ARCHITECTURE_DOC_PAGE_ID": "100",
    "ALLOWLISTED_GROUPS": "group",
    "OUTBOUND_RETRY_SECONDS": "",
}


class Taped:
    """Ports whose servers are tapes: that nothing else is asked for than was recorded, the tapes themselves assert."""

    page = "100"

    def __init__(self, tracker: TrackerPort, vcs: VcsPort, docs: DocsPort) -> None:
        self.tracker, self.vcs, self.docs = tracker, vcs, docs

    def comments(self, expected: int) -> None:
        """See nothing."""

    def notes(self, expected: int) -> None:
        """See nothing."""

    def approvals(self, expected: list[str]) -> None:
        """See nothing."""


def ident(case: Case) -> str:
    return case.__name__


@pytest.mark.req("SCAF-03", "SCAF-05", "SCAF-86")
@pytest.mark.parametrize("case", CASES, ids=ident)
def test_local_does_what_its_ports_say(case: Case, tmp_path: Path) -> None:
    local = local_world(tmp_path)

    class OnLocal(Taped):
        page = PAGE

        def comments(self, expected: int) -> None:
            ticket: Any = local.tickets.get(KEY)
            assert len(ticket["comments"]) == expected

        def notes(self, expected: int) -> None:
            found: Any = local.repositories.notes(PROJECT, 1)
            assert len(found) == expected

        def approvals(self, expected: list[str]) -> None:
            found: Any = local.repositories.merge_request(PROJECT, 1)
            assert found["approved"] == expected

    with upstream_of(server_command(tmp_path)) as upstream:
        world = OnLocal(LocalTracker(upstream), LocalVcs(upstream), LocalDocs(upstream))
        asyncio.run(case(world))


def played(tapes: Path) -> dict[str, str]:
    """Return an environment in which the servers are tapes."""
    environ = {**REAL, "PATH": os.environ["PATH"]}
    for name in ("ATLASSIAN", "GITLAB"):
        environ[f"MCP_{name}_COMMAND"] = sys.executable
        environ[f"MCP_{name}_ARGS"] = json.dumps([mcp_tape.__file__, "play", str(tapes / f"{name.lower()}.jsonl")])
    return environ


def test_a_server_without_a_tool_or_an_argument_of_the_table_is_refused_by_name(tmp_path: Path) -> None:
    tape = (TAPES / "gitlab.jsonl").read_text()
    renamed = tape.replace('"name": "push_files"', '"name": "push"').replace('"ref_name": {}', '"ref": {}')
    (tmp_path / "gitlab.jsonl").write_text(renamed)
    environ = played(tmp_path)
    _, chosen = ticket_settings(environ, "scaffolding")
    with outbound_ports(environ, chosen, Redactor()) as (_, vcs, _), pytest.raises(RemoteToolsMissing) as refused:
        asyncio.run(vcs.resolve_project(PROJECT))
    assert refused.value.facts == {"server": "gitlab", "missing": ["list_commits(ref_name)", "push_files"]}


@pytest.mark.hostile("X13")
def test_an_answer_that_is_none_is_refused_and_breaks_nothing(tmp_path: Path) -> None:
    entries = [json.loads(line) for line in (TAPES / "gitlab.jsonl").read_text().splitlines()]
    page = {"content": [{"type": "text", "text": "<html>Log in, please.</html>"}]}
    strange = [{**each, "answer": {"result": page}} if each["method"] == "tools/call" else each for each in entries]
    (tmp_path / "gitlab.jsonl").write_text("\n".join(map(json.dumps, strange)))
    environ = played(tmp_path)
    _, chosen = ticket_settings(environ, "scaffolding")
    with outbound_ports(environ, chosen, Redactor()) as (_, vcs, _), pytest.raises(RemoteRejected) as refused:
        asyncio.run(vcs.validate_branch_existence(PROJECT, "feature/SHOP-12-orders"))
    assert refused.value.message == "AOP does not understand the answer to `validate_branch_existence`."


@pytest.mark.req("SCAF-03", "SCAF-05", "SCAF-86", "REV-03", "REV-73")
def test_jira_confluence_and_gitlab_do_what_their_ports_say() -> None:
    environ = {**played(TAPES), "CODE_REVIEW_ALLOW_APPROVE": "true"}
    _, chosen = ticket_settings(environ, "code-review")

    async def play(world: Taped) -> None:
        for case in CASES:
            await case(world)

    with outbound_ports(environ, chosen, Redactor()) as ports:
        asyncio.run(play(Taped(*ports)))
