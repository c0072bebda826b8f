"""The suite of the ports, on the real MCP servers; with `AOP_RECORD_TAPES=1`, the tapes that `make test` plays."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.adapters.tickets.setup.assembly import outbound_ports
from aop.adapters.tickets.setup.servers import SERVERS, server_command
from aop.adapters.tickets.setup.settings import ticket_settings
from aop.core.redaction.redactor import Redactor
from tests.real.fake_rest import FakeRest
from tests.real.ticket_worlds import DESCRIPTION, PAGES, as_cloud, needs_servers, real_world
from tests.tickets import mcp_tape
from tests.tickets.local_worlds import KEY, PROJECT
from tests.tickets.port_suite import CASES
from tests.tickets.test_port_conformance import TAPES, Taped

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


class OnServers(Taped):
    """Ports on the real servers, with the fake systems in view."""

    rest: FakeRest

    def comments(self, expected: int) -> None:
        assert len(self.rest.tracker.comments) == expected

    def notes(self, expected: int) -> None:
        assert len(self.rest.code.notes) == expected

    def approvals(self, expected: list[str]) -> None:
        assert self.rest.code.approvals == expected


@pytest.fixture(params=["data center", "cloud"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OnServers]:
    needs_servers()
    is_cloud = request.param == "cloud"
    with real_world() as (rest, env):
        environ = {**(as_cloud(env, rest) if is_cloud else env), "PATH": os.environ["PATH"]}
        tapes = TAPES if os.environ.get("AOP_RECORD_TAPES") and not is_cloud else tmp_path
        for name, server in SERVERS.items():
            tape = tapes / f"{name}.jsonl"
            tape.unlink(missing_ok=True)
            providers = frozenset(["GITLAB"] if name == "gitlab" else ["JIRA", "CONFLUENCE"])
            command = server_command(server, providers, environ, may_approve=True)
            words = [mcp_tape.__file__, "record", str(tape), command.command, *command.args]
            environ |= {server.command: sys.executable, server.arguments: json.dumps(words)}
        _, chosen = ticket_settings({**environ, "CODE_REVIEW_ALLOW_APPROVE": "true"}, "code-review")
        with outbound_ports(environ, chosen, Redactor()) as ports:
            found = OnServers(*ports)
            found.rest = rest
            yield found


@pytest.mark.req("SCAF-03", "SCAF-05", "SCAF-86", "REV-03", "REV-73")
def test_jira_confluence_and_gitlab_do_what_their_ports_say(world: OnServers) -> None:
    async def play() -> None:
        for case in CASES:
            world.rest.begin(KEY, DESCRIPTION, PROJECT, PAGES)
            await case(world)
            assert world.rest.strangers == []

    asyncio.run(play())
