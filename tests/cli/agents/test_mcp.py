"""`aop mcp config`: the configuration of each host names the token's variable, never a token."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.world import make_repository, run_aop

URL = "http://127.0.0.1:4777/mcp"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("hosts") / "repo")


def told(root: Path, host: str, *words: str) -> Any:
    ran = run_aop(root, "mcp", "config", host, *words)
    assert ran.code == 0, ran
    return tomllib.loads(ran.out) if host == "codex" else json.loads(ran.out)


@pytest.mark.parametrize(
    ("host", "key", "expected"),
    [
        ("claude", "mcpServers", {"type": "stdio", "env": {"AOP_TOKEN": "${AOP_TOKEN}"}}),
        ("vscode", "servers", {"type": "stdio", "env": {"AOP_TOKEN": "${env:AOP_TOKEN}"}}),
        ("gemini", "mcpServers", {"env": {"AOP_TOKEN": "$AOP_TOKEN"}}),
        ("codex", "mcp_servers", {"env_vars": ["AOP_TOKEN"], "required": True}),
    ],
)
def test_a_host_starts_the_server_of_this_repository(root: Path, host: str, key: str, expected: Any) -> None:
    server = told(root, host)[key]["aop"]
    assert (server.pop("args")[-3:], Path(server.pop("command")).is_absolute()) == (["mcp", "--repo", str(root)], True)
    assert server == expected


@pytest.mark.parametrize(
    ("host", "key", "expected"),
    [
        ("claude", "mcpServers", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${AOP_TOKEN}"}}),
        ("vscode", "servers", {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${env:AOP_TOKEN}"}}),
        ("gemini", "mcpServers", {"httpUrl": URL, "headers": {"Authorization": "Bearer $AOP_TOKEN"}}),
        ("codex", "mcp_servers", {"url": URL, "bearer_token_env_var": "AOP_TOKEN", "required": True}),
    ],
)
def test_a_host_may_be_told_of_a_server_that_runs(root: Path, host: str, key: str, expected: Any) -> None:
    assert told(root, host, "--url", URL)[key]["aop"] == expected


@pytest.mark.hostile("T17")
def test_how_to_get_the_token_is_said_beside_it_and_none_is_made(root: Path) -> None:
    ran = run_aop(root, "mcp", "config", "claude", "--role", "builder", "--feature", "one", env={"AOP_TOKEN": "a.b.c"})
    assert ran.err.endswith("#   export AOP_TOKEN=$(aop token builder --feature one)\n")
    assert "a.b.c" not in ran.out + ran.err
    assert run_aop(root, "token", "list").out == ""


@pytest.mark.parametrize(
    "words", [("config",), ("config", "emacs"), ("configure", "claude"), ("config", "claude", "x")]
)
def test_a_host_that_is_not_known_is_a_usage_error(root: Path, words: tuple[str, ...]) -> None:
    ran = run_aop(root, "mcp", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "claude, codex, gemini, vscode" in ran.err


def test_for_a_program_the_text_its_place_and_the_way_to_a_token_are_one_object(root: Path) -> None:
    ran = run_aop(root, "mcp", "config", "codex", "--role", "qa", "--json")
    text = run_aop(root, "mcp", "config", "codex").out
    assert (ran.json, ran.err) == (
        {
            "schema": "aop/1",
            "ok": True,
            "data": {
                "host": "codex",
                "file": "~/.codex/config.toml",
                "text": text,
                "token": "export AOP_TOKEN=$(aop token qa)",
            },
            "evidence": {},
        },
        "",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--role", "boss"), "there is no role `boss`; use one of"),
        (("--feature", "$(reboot)"), "`$(reboot)` is not a feature id"),
    ],
)
def test_no_way_to_a_token_is_named_that_leads_nowhere(root: Path, words: tuple[str, ...], said: str) -> None:
    ran = run_aop(root, "mcp", "config", "claude", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
