"""`aop agents`: list, install and test, in real processes with stand-in programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.world import make_repository, run_aop

NPM = """\
#!/bin/sh
echo "$@" >>"$AOP_AGENTS_HOME/npm.log"
mkdir -p "$3/node_modules/.bin"
printf '#!/bin/sh\\necho %s\\n' "${SAYS:-2.1.325}" >"$3/node_modules/.bin/claude"
chmod +x "$3/node_modules/.bin/claude"
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home of its own and no agent in it."""
    home = tmp_path / "home"
    home.mkdir()
    own = tmp_path / "agents"
    own.mkdir()
    path = os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"])
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "")
    return {"HOME": str(home), "PATH": path, "AOP_AGENTS_HOME": str(own), **keys}


def npm_in(folder: Path) -> None:
    (folder / "npm").write_text(NPM)
    (folder / "npm").chmod(0o755)


def test_what_is_not_installed_says_how_to_install_it(tmp_path: Path, env: dict[str, str]) -> None:
    ran = run_aop(tmp_path, "agents", env=env)
    assert (ran.code, ran.out.splitlines()[0]) == (
        0,
        "claude     not installed. Install 2.1.325 with: aop agents install claude",
    )


def test_an_agent_on_the_path_is_listed_with_its_version_and_whether_it_has_a_key(
    tmp_path: Path, env: dict[str, str]
) -> None:
    bad_agent(tmp_path / "bin", "claude")
    chosen = {"ANTHROPIC_API_KEY": "sk-secret", "AOP_AGENT_PROVIDER": "claude"}
    ran = run_aop(tmp_path, "agents", "--json", env={**env, **chosen})
    told = json.loads(ran.out)["data"]
    assert told["roles"] == {"planner": "claude", "builder": "claude", "qa": "claude"}
    assert told["agents"][0] == {
        "provider": "claude",
        "installed": True,
        "source": "path",
        "version": "1.2.3",
        "tested_version": "2.1.325",
        "title": "Claude Code",
        "tried": True,
        "metered": True,
        "key_variable": "ANTHROPIC_API_KEY",
        "has_key": True,
        "has_login": False,
        "uses_login": False,
        "account": "",
        "login_problem": "",
        "usable": True,
    }
    assert "sk-secret" not in ran.out + ran.err


def test_the_tested_version_is_installed_into_a_folder_of_its_own_and_taken_from_then_on(
    tmp_path: Path, env: dict[str, str]
) -> None:
    npm_in(bad_agent(tmp_path / "bin", "claude"))
    ran = run_aop(tmp_path, "agents", "install", "claude", "--json", env=env)
    assert json.loads(ran.out)["data"] == {"provider": "claude", "version": "2.1.325"}
    assert "@anthropic-ai/claude-code@2.1.325" in (tmp_path / "agents/npm.log").read_text()
    listed = json.loads(run_aop(tmp_path, "agents", "--json", env=env).out)["data"]["agents"][0]
    assert (listed["source"], listed["version"]) == ("aop", "2.1.325")
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == ["claude", "npm.log"]


def test_another_version_than_the_tested_one_is_not_put_in_place(tmp_path: Path, env: dict[str, str]) -> None:
    npm_in(bad_agent(tmp_path / "bin", "codex"))
    ran = run_aop(tmp_path, "agents", "install", "claude", "--json", env={**env, "SAYS": "2.1.197"})
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == (1, "agent_install_failed")
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == ["npm.log"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["install", "oracle"], "unsupported_agent_provider", id="no such agent"),
        pytest.param(["install"], "invalid_cli_args", id="no agent"),
        pytest.param(["test", "claude"], "agent_provider_not_configured", id="not installed"),
    ],
)
def test_a_wrong_use_says_what_to_do(tmp_path: Path, env: dict[str, str], words: list[str], code: str) -> None:
    ran = run_aop(tmp_path, "agents", *words, "--json", env=env)
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == (2, code)


@pytest.mark.req("AOP-314")
def test_a_trial_without_a_key_says_which_variable_to_set(tmp_path: Path, env: dict[str, str]) -> None:
    bad_agent(tmp_path / "bin", "claude")
    ran = run_aop(tmp_path, "agents", "test", "claude", "--json", env=env)
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["code"], error["details"]["variable"]) == (2, "provider_auth_missing", "ANTHROPIC_API_KEY")


def test_a_row_of_the_user_that_is_wrong_is_refused_with_file_line_and_the_key_that_was_meant(
    tmp_path: Path, env: dict[str, str]
) -> None:
    own = Path(env["HOME"], ".config/aop/agents.yaml")
    own.parent.mkdir(parents=True)
    own.write_text("version: 1\nproviders:\n  mine:\n    titel: Mine\n    acp: [mine]\n")
    ran = run_aop(tmp_path, "agents", "--json", env={**env, "XDG_CONFIG_HOME": ""})
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["code"], error["details"]["line"]) == (4, "invalid_configuration", 4)
    assert "did you mean `title`?" in error["message"]


def test_a_program_that_aop_has_no_package_of_is_not_installed_by_it(tmp_path: Path, env: dict[str, str]) -> None:
    error = json.loads(run_aop(tmp_path, "agents", "install", "cursor", "--json", env=env).out)["error"]
    assert (error["code"], error["message"]) == ("agent_install_failed", "AOP has no package of `cursor`.")


@pytest.mark.slow
def test_a_trial_has_an_agent_call_a_tool(tmp_path: Path, env: dict[str, str]) -> None:
    bad_agent(tmp_path / "bin", "claude")
    path = os.pathsep.join([env["PATH"], os.path.dirname(PYTHON)])
    ran = run_aop(tmp_path, "agents", "test", "claude", "--json", env={**env, "PATH": path, "ANTHROPIC_API_KEY": "k1"})
    assert ran.code == 0, (ran.out, ran.err)
    told = json.loads(ran.out)["data"]
    assert (told["provider"], told["agent"]["version"], told["usage"]["input_tokens"]) == ("claude", "1.2.3", 0)
    assert told["tools"] > 20


# --- log-ins ---------------------------------------------------------------------------------------

LOGIN = """\
#!/bin/sh
case "$1" in --version) echo 2.1.325; exit;; esac
echo "$@" >"$HOME/words"
echo "Open the browser."
mkdir -p "$HOME/.claude"
umask 077
echo '{"claudeAiOauth": {"accessToken": "sk-of-a-log-in-0123456789", "refreshToken": "r", "expiresAt": 9999999999999,
  "subscriptionType": "max"}}' >"$HOME/.claude/.credentials.json"
"""


def login_program(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "claude").write_text(LOGIN)
    (folder / "claude").chmod(0o755)


def test_a_person_logs_in_with_the_programs_own_log_in(tmp_path: Path, env: dict[str, str]) -> None:
    login_program(tmp_path / "bin")
    ran = run_aop(tmp_path, "agents", "login", "claude", "--json", env=env)
    assert (json.loads(ran.out)["data"], "Open the browser." in ran.err) == (
        {"provider": "claude", "account": "max"},
        True,
    )
    assert (tmp_path / "home/words").read_text() == "auth login\n"
    listed = run_aop(tmp_path, "agents", env=env).out.splitlines()[0]
    assert "its own log-in is not used: `login: {claude: true}` in agents.yaml allows it" in listed


def test_no_agent_logs_in(tmp_path: Path, env: dict[str, str]) -> None:
    login_program(tmp_path / "bin")
    ran = run_aop(tmp_path, "agents", "login", "claude", "--json", env={**env, "AOP_TOKEN": "a-token"})
    assert json.loads(ran.out)["error"]["code"] == "person_required"
    assert not (tmp_path / "home/words").exists()


def test_a_log_in_is_named_where_it_is_used_and_why_it_cannot_be(tmp_path: Path, env: dict[str, str]) -> None:
    login_program(tmp_path / "bin")
    root = make_repository(
        tmp_path / "repo", {"agentic/orchestrator/agents.yaml": "version: 1\nlogin: {claude: true}\n"}
    )
    before = run_aop(root, "agents", env=env).out
    assert "its log-in cannot be used: `" in before
    assert "Log in with: aop agents login claude" in before
    doctor = json.loads(run_aop(root, "doctor", "--json", env=env).out)["data"]["checks"]
    assert [check["health"] for check in doctor if check["name"] == "agents"] == ["warning"]
    run_aop(root, "agents", "login", "claude", env=env)
    told = json.loads(run_aop(root, "agents", "--json", env={**env, "ANTHROPIC_API_KEY": "sk-secret"}).out)["data"]
    claude = told["agents"][0]
    assert (claude["uses_login"], claude["account"], claude["login_problem"], claude["usable"]) == (
        True,
        "max",
        "",
        True,
    )
    shown = run_aop(root, "agents", env=env).out
    assert "its own log-in (max), usage self-reported" in shown
    doctor = json.loads(run_aop(root, "doctor", "--json", env=env).out)["data"]["checks"]
    assert [check["found"] for check in doctor if check["name"] == "agents"] == ["claude (log-in)"]
