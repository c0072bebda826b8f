"""MCP conformance suite and inspector, against the MCP server of AOP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import TOKEN_ROLES
from tests.forge.broker.shelves import ROLE_TOOLS
from tests.mcpserver.clients import AOP, served, token_for
from tests.real.conftest import Run
from tests.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

HERE = Path(__file__).parent


@contextmanager
def conformance_server() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.real.conformance_server"]
    with subprocess.Popen(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("revision", "expected"), [("2025-11-25", "conformance.yml"), ("2026-07-28", "conformance-2026.yml")]
)
def test_the_conformance_suite_finds_no_failure_but_those_we_expect(run: Run, revision: str, expected: str) -> None:
    with conformance_server() as url:
        words = [
            "--url",
            url,
            "--suite",
            "all",
            "--spec-version",
            revision,
            "--expected-failures",
            str(HERE / expected),
        ]
        ended = run("conformance", "server", *words)
    assert ended.returncode == 0, ended.stdout[-3000:]


def listed(ended: subprocess.CompletedProcess[str]) -> list[str]:
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [tool["name"] for tool in json.loads(ended.stdout)["result"]["tools"]]


LIST = ("--method", "tools/list", "--format", "json", "--strict")


@pytest.mark.req("AOP-152", "FORGE-099")
def test_the_inspector_sees_the_tools_of_each_role_and_finds_no_error_in_them(run: Run, world: World) -> None:
    with served(world.root) as server:
        for role in sorted(TOKEN_ROLES):
            token = token_for(world, role)
            own = [tool.name for tool in world.app.gateway.tools_for(Principal(role=role, actor="a"))]
            http = ["--header", f"Authorization: Bearer {token}", "--transport", "http", "--server-url", server.url]
            seen = listed(run("inspector", "--cli", *LIST, *http))
            assert seen == own
            assert [name for name in seen if name.startswith("forge_")] == ROLE_TOOLS.get(role, [])
    stdio = [*AOP, "mcp", "--repo", str(world.root)]
    for role in (Role.BUILDER, Role.ORCHESTRATOR):
        own = [tool.name for tool in world.app.gateway.tools_for(Principal(role=role, actor="a"))]
        token = token_for(world, role)
        assert listed(run("inspector", "--cli", "-e", f"AOP_TOKEN={token}", *LIST, *stdio)) == own
