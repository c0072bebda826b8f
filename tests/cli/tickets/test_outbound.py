"""`aop outbound` and the outbound checks of `aop doctor`, in real processes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.world import World, run_aop

NPM = """\
#!/bin/sh
mkdir -p "$3/node_modules/@zereight/mcp-gitlab/build"
echo "{\\"version\\": \\"${SAYS:-2.1.64}\\"}" >"$3/node_modules/@zereight/mcp-gitlab/package.json"
echo >"$3/node_modules/@zereight/mcp-gitlab/build/index.js"
"""
GITLAB = {"VCS_PROVIDER": "gitlab", "GITLAB_BASE_URL": "https://git.example", "GITLAB_TOKEN": "glpat-secret-value"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an npm, and a folder of its own for servers."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npm").write_text(NPM)
    (programs / "npm").chmod(0o755)
    path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
    return {"PATH": path, "AOP_OUTBOUND_HOME": str(tmp_path / "servers"), "PIP_NO_INDEX": "1"}


def test_what_is_not_installed_says_how_to_install_it(tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "outbound", env=env)
    assert (ran.code, ran.out) == (
        0,
        "jira        not installed. Install mcp-atlassian 0.23.1 with: aop outbound install jira\n"
        "confluence  not installed. Install mcp-atlassian 0.23.1 with: aop outbound install confluence\n"
        "gitlab      not installed. Install @zereight/mcp-gitlab 2.1.64 with: aop outbound install gitlab\n",
    )


def test_a_server_is_installed_and_listed_with_what_is_still_to_be_set(tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "outbound", "install", "gitlab", "--json", env=env)
    assert (ran.code, ran.json["data"]) == (0, {"installed": {"@zereight/mcp-gitlab": "2.1.64"}})
    listed = json.loads(run_aop(tmp_path, "outbound", "--json", env={**env, "GITLAB_TOKEN": "t"}).out)
    assert listed["data"]["providers"][2] == {
        "provider": "gitlab",
        "package": "@zereight/mcp-gitlab",
        "installed": True,
        "source": "aop",
        "version": "2.1.64",
        "tested_version": "2.1.64",
        "variables": {"GITLAB_BASE_URL": False, "GITLAB_TOKEN": True},
        "usable": False,
    }
    assert [path.name for path in (tmp_path / "servers").iterdir()] == ["gitlab"]


def test_another_version_than_the_tested_one_is_not_put_in_place(tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "outbound", "install", "gitlab", "--json", env={**env, "SAYS": "9.9.9"})
    assert (ran.code, ran.json["error"]["code"]) == (1, "outbound_install_failed")
    assert list((tmp_path / "servers").iterdir()) == []


def test_an_installation_that_fails_says_why_and_leaves_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "outbound", "install", "jira", "--json", env=env)
    error = ran.json["error"]
    assert (ran.code, error["code"]) == (1, "outbound_install_failed")
    assert error["message"].startswith("pip could not install `mcp-atlassian==0.23.1`: ERROR: ")
    assert list((tmp_path / "servers").iterdir()) == []
    (tmp_path / "bin" / "npm").unlink()
    lacking = run_aop(tmp_path, "outbound", "install", "gitlab", "--json", env={**env, "PATH": str(tmp_path / "bin")})
    assert lacking.json["error"]["message"] == "`npm` is not on the PATH."


@pytest.mark.parametrize("words", [["install"], ["install", "bitbucket"], ["remove", "gitlab"]])
def test_wrong_use_names_the_providers(words: list[str], tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "outbound", *words, "--json", env=env)
    assert (ran.code, ran.json["error"]["details"]["suggested_next_actions"]) == (
        2, ["The providers are: jira, confluence, gitlab."],
    )  # fmt: skip


def test_doctor_names_what_a_provider_lacks_and_no_token(world: World, tmp_path: Path, env: dict[str, str]) -> None:
    def said(**more: str) -> list[tuple[str, str]]:
        ran = run_aop(world.root, "doctor", "--json", env={**env, **more})
        assert "glpat-secret-value" not in ran.out + ran.err
        return [(each["health"], each["found"]) for each in ran.json["data"]["checks"] if each["name"] == "outbound"]

    assert said() == []
    assert said(**{**GITLAB, "GITLAB_TOKEN": ""}) == [("failure", "gitlab: not set: GITLAB_TOKEN")]
    assert said(**GITLAB) == [("failure", "gitlab: @zereight/mcp-gitlab is not installed")]
    run_aop(world.root, "outbound", "install", "gitlab", env=env)
    assert said(**GITLAB) == [("ok", "gitlab: 2.1.64, token set")]
    named = {"MCP_GITLAB_COMMAND": "my-server", "AOP_OUTBOUND_HOME": str(tmp_path / "none")}
    assert said(**GITLAB, **named) == [("ok", "gitlab: custom command, token set")]


@pytest.mark.req("SCAF-32", "REV-20")
def test_a_ticket_without_the_server_or_the_token_of_its_provider_is_refused_before_anything_is_asked(
    world: World, env: dict[str, str]
) -> None:
    wanted = {
        "VCS_PROVIDER": "GITLAB", "TRACKER_PROVIDER": "JIRA", "KNOWLEDGE_PROVIDER": "CONFLUENCE",
        "WORKFLOW_STATE_INITIAL": "To Do", "WORKFLOW_STATE_SUCCESS": "Done", "ARCHITECTURE_DOC_PAGE_ID": "1",
        "AOP_MODELS": "vllm:local", "VLLM_BASE_URL": "http://127.0.0.1:9/v1",
    }  # fmt: skip
    lacking = run_aop(world.root, "ticket", "scaffold", "SHOP-12", "--json", env={**env, **wanted})
    assert (lacking.code, lacking.json["error"]["details"]["missing"]) == (2, [
        "JIRA_BASE_URL", "JIRA_API_TOKEN", "CONFLUENCE_BASE_URL", "CONFLUENCE_API_TOKEN", "GITLAB_BASE_URL",
        "GITLAB_TOKEN",
    ])  # fmt: skip
    systems = {f"{name}_BASE_URL": "https://x.example" for name in ("JIRA", "CONFLUENCE", "GITLAB")}
    tokens = dict.fromkeys(("JIRA_API_TOKEN", "CONFLUENCE_API_TOKEN", "GITLAB_TOKEN"), "t")
    missing = run_aop(world.root, "ticket", "scaffold", "SHOP-12", "--json", env={**env, **wanted, **systems, **tokens})
    assert (missing.code, missing.json["error"]["code"]) == (1, "outbound_server_missing")
