"""One turn with a log-in, as a process of its own: only one MCP server fits into a process.

All is as `aop run` has it, except that the names of hosts lead to a double on this machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aop.adapters.agents import contexts
from aop.adapters.agents.logins.destinations import Network, Streams
from aop.adapters.agents.staff import program_of
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.agents.workers.vendor_session import SessionWorker
from aop.cli.shell.mcp_server import serve_mcp
from aop.core.errors import Refusal
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.supervisor.workers import ProviderChoice, WorkerInput, WorkerOutput
from aop.wiring.build import Settings, build

FEATURE = FeatureId("good")
NOTE = "Said with a log-in."
PUBLIC = "93.184.215.14"


def network_of(port: int) -> Network:
    """Return a network in which every name leads to a port of this machine, by way of a public address."""

    async def resolve(_host: str) -> Sequence[str]:
        return (PUBLIC,)

    async def connect(_address: str, _port: int) -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    return Network(resolve=resolve, connect=connect)


def turn(vendor: str, role: Role, root: Path, port: int) -> WorkerOutput:
    """Run one turn of a role on a new feature."""
    choice, environ = ProviderChoice(provider=vendor, model="a-model"), os.environ
    with build(root, Settings.from_env(environ)) as app:
        app.gateway.call(app.person, "feature.init", {"feature_id": FEATURE})
        with serve_mcp(app.gateway, app.tokens, lambda _line: None) as url:
            network = network_of(port)
            context = contexts.session_context(app.gateway.kernel, app.root, environ, app.tokens, url, network=network)
            program = program_of(vendors_of(None, environ)[vendor], choice, environ, context)
            return SessionWorker(program).turn(_input(choice, role))


def _input(choice: ProviderChoice, role: Role) -> WorkerInput:
    return WorkerInput(
        role=role,
        feature_id=FEATURE,
        context_bundle={},
        instructions=f"Call the tool `submit_note` with the note `{NOTE}`, and end.",
        last_tool_results=(),
        provider=choice.provider,
        model=choice.model,
        provider_config_ref=None,
    )


def main(root: str, port: str, vendor: str, role: str) -> None:
    """Print what came of it as JSON."""
    try:
        output = msgspec.to_builtins(turn(vendor, Role(role), Path(root), int(port)))
    except Refusal as refusal:
        output = {"refused": refusal.code, "message": refusal.message, "next": refusal.next_action}
    sys.stdout.write(msgspec.json.encode(output).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
