"""Catalogue of coding agents: how each is installed, started and restricted.

Each is started for one turn, reads its prompt from standard input, and reaches AOP over HTTP MCP as the server `aop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.roles import Role
from aop.kernel.config.agents import Provider

TOKEN_VARIABLE = "AOP_TOKEN"


class AgentSession(Struct, frozen=True, kw_only=True):
    """The settings of one turn of an agent."""

    role: Role
    model: str | None
    home: Path
    tree: Path
    mcp_url: str
    token: str
    model_url: str
    model_key: str
    """A placeholder: the agent never sees the key itself."""
    sandboxed: bool
    """Whether a sandbox is in force: only then the agent gets a shell."""

    @property
    def edits(self) -> bool:
        """Tell whether the role changes files."""
        return self.role not in (Role.PLANNER, Role.SWE)

    @property
    def reads_files(self) -> bool:
        """Tell whether the role reads files with the agent's own tools; a gated agent has only AOP's tools."""
        return self.role is not Role.SWE


class Launch(Struct, frozen=True, kw_only=True):
    """The command line, environment and files of one session."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = {}
    """Files to write into its home first."""


class Vendor(Struct, frozen=True, kw_only=True):
    """One coding agent."""

    provider: Provider
    program: str
    package: str
    version: str
    """The one that AOP is tested with."""
    family: str
    """The protocol that its models speak."""
    key_variable: str
    url_variable: str
    url: str
    """The default address of its models."""
    logins: tuple[str, ...]
    """Files in the user's home that its own login creates."""
    overlay: str
    launch: Callable[[AgentSession], Launch]


def _claude(session: AgentSession) -> Launch:
    tools = ["Read", "Grep", "Glob"] if session.reads_files else []
    tools += ["Edit", "Write"] if session.edits else []
    tools += ["Bash"] if session.edits and session.sandboxed else []
    server = {"type": "http", "url": session.mcp_url, "headers": {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}}
    words = ["-p", "--output-format", "stream-json", "--verbose", "--setting-sources", ""]
    words += ["--strict-mcp-config", "--mcp-config", str(session.home / "mcp.json"), "--permission-mode", "dontAsk"]
    words += ["--tools", ",".join(tools), "--allowedTools", ",".join(["mcp__aop", *tools])]
    words += ["--model", session.model] if session.model else []
    env = {
        "ANTHROPIC_BASE_URL": session.model_url,
        "ANTHROPIC_API_KEY": session.model_key,
        "CLAUDE_CONFIG_DIR": str(session.home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return Launch(words=tuple(words), env=env, files={"mcp.json": _json({"mcpServers": {"aop": server}})})


_CODEX_OWN = ("shell_tool", "unified_exec", "view_image", "image_generation", "multi_agent", "sleep_tool", "goals")


def _codex(session: AgentSession) -> Launch:
    # Its own sandbox does not start inside AOP's, and the scratch tree is temporary.
    inner = "danger-full-access" if session.sandboxed else "workspace-write" if session.edits else "read-only"
    provider = (
        f'{{name="gw",base_url={_json(session.model_url)},env_key="OPENAI_API_KEY",wire_api="responses",'
        "request_max_retries=2,stream_max_retries=2}"
    )
    server = (
        f'{{url={_json(session.mcp_url)},bearer_token_env_var="{TOKEN_VARIABLE}",'
        'default_tools_approval_mode="approve",required=true}'
    )
    settings = {
        "model_provider": '"gw"',
        "model_providers.gw": provider,
        "mcp_servers.aop": server,
        "shell_environment_policy": '{inherit="core"}',
        "approval_policy": '"never"',
        "analytics.enabled": "false",
        "check_for_update_on_startup": "false",
        "web_search": '"disabled"',
    }
    words = ["exec", "--json", "--skip-git-repo-check", "--ignore-user-config", "--color", "never"]
    words += ["-s", inner, "-C", str(session.tree), "--disable", "plugins", "--disable", "apps"]
    words += [] if session.reads_files else [word for name in _CODEX_OWN for word in ("--disable", name)]
    words += ["-m", session.model] if session.model else []
    words += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    env = {"CODEX_HOME": str(session.home / ".codex"), "OPENAI_API_KEY": session.model_key}
    return Launch(words=(*words, "-"), env=env, files={".codex/.keep": ""})


def _gemini(session: AgentSession) -> Launch:
    # An allow-list would have to name every tool of AOP too.
    excluded = ["web_fetch", "google_web_search", "save_memory"]
    excluded += [] if session.edits else ["write_file", "replace"]
    excluded += [] if session.edits and session.sandboxed else ["run_shell_command"]
    server = {"httpUrl": session.mcp_url, "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"}, "trust": True}
    settings = {
        "security": {
            "auth": {"selectedType": "gemini-api-key"},
            "folderTrust": {"enabled": False},
            "environmentVariableRedaction": {"enabled": True},
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "maxAttempts": 2},
        # Excluding by name would also exclude AOP's tools of the same name.
        "tools": {"exclude": excluded} if session.reads_files else {"core": ["mcp_aop_*"]},
        "mcpServers": {"aop": server},
    }
    words = ["--output-format", "stream-json", "--approval-mode", "yolo" if session.edits else "default"]
    words += ["-m", session.model] if session.model else []
    env = {
        "GEMINI_API_KEY": session.model_key,
        "GOOGLE_GEMINI_BASE_URL": session.model_url,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return Launch(words=tuple(words), env=env, files={".gemini/settings.json": _json(settings)})


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


VENDORS: Mapping[Provider, Vendor] = {
    Provider.CLAUDE: Vendor(
        provider=Provider.CLAUDE,
        program="claude",
        package="@anthropic-ai/claude-code",
        version="2.1.325",
        family="anthropic",
        key_variable="ANTHROPIC_API_KEY",
        url_variable="ANTHROPIC_BASE_URL",
        url="https://api.anthropic.com",
        logins=(".claude/.credentials.json",),
        overlay="The tools of the server `aop` are named like `mcp__aop__submit_plan`.",
        launch=_claude,
    ),
    Provider.CODEX: Vendor(
        provider=Provider.CODEX,
        program="codex",
        package="@openai/codex",
        version="0.166.0",
        family="openai",
        key_variable="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
        url="https://api.openai.com/v1",
        logins=(".codex/auth.json",),
        overlay="The tools of the server `aop` are listed beside your own.",
        launch=_codex,
    ),
    Provider.GEMINI: Vendor(
        provider=Provider.GEMINI,
        program="gemini",
        package="@google/gemini-cli",
        version="0.61.0",
        family="google",
        key_variable="GEMINI_API_KEY",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        url="https://generativelanguage.googleapis.com",
        logins=(".gemini/oauth_creds.json",),
        overlay="The tools of the server `aop` are named like `mcp_aop_submit_plan`.",
        launch=_gemini,
    ),
}
