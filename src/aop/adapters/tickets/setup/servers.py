"""Servers of the ticket systems: package, version and start command."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from aop.adapters.tickets.mcp.stdio_client import CALL_SECONDS, ServerCommand
from aop.adapters.tickets.setup.addresses import checked_address, is_atlassian_cloud
from aop.adapters.tickets.systems import confluence, gitlab, jira
from aop.core.errors import OutboundServerMissing, TicketSettingMissing

FOLDER_VARIABLE = "AOP_OUTBOUND_HOME"
CALL_SECONDS_VARIABLE = "OUTBOUND_CALL_SECONDS"
RETRY_VARIABLE = "OUTBOUND_RETRY_SECONDS"
RETRY_WAITS = (1.0, 5.0)

JIRA, CONFLUENCE, GITLAB = "JIRA", "CONFLUENCE", "GITLAB"

# A child gets only these variables, and those of its own system.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_NETWORK = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
# A redirect could lead a server to hosts that only this machine can reach.
_NO_REDIRECTS = "import requests.sessions; requests.sessions.DEFAULT_REDIRECT_LIMIT = 0"
_NO_REDIRECTS_OF_NODE = (
    "import {{createRequire}} from 'node:module';"
    "const u = createRequire({program})('undici'), followed = u.fetch;"
    "u.fetch = (where, how) => followed(where, {{...how, redirect: 'manual'}});"
)


class TicketSystem(Struct, frozen=True):
    """A ticket system, with the variables of its address and account."""

    name: str
    server: str
    address: str
    account: str
    """Optional: with it the token is for Atlassian Cloud, without it a personal access token."""
    token: str


class OutboundServer(Struct, frozen=True, kw_only=True):
    """A third-party MCP server."""

    name: str
    package: str
    version: str
    from_npm: bool
    program: str
    """Relative to its folder."""
    words: tuple[str, ...] = ()
    command: str
    """The variable that names another program; `arguments` is the variable of its arguments."""
    arguments: str


ATLASSIAN = OutboundServer(
    name="atlassian",
    package="mcp-atlassian",
    version="0.23.1",
    from_npm=False,
    program="bin/python",
    # Otherwise an `.env` in its working folder would override its environment.
    words=("-I", "-c", f"{_NO_REDIRECTS}; from mcp_atlassian import main; main()", "--env-file", os.devnull),
    command="MCP_ATLASSIAN_COMMAND",
    arguments="MCP_ATLASSIAN_ARGS",
)
GITLAB_SERVER = OutboundServer(
    name="gitlab",
    package="@zereight/mcp-gitlab",
    version="2.1.64",
    from_npm=True,
    program="node_modules/@zereight/mcp-gitlab/build/index.js",
    command="MCP_GITLAB_COMMAND",
    arguments="MCP_GITLAB_ARGS",
)
SERVERS = {server.name: server for server in (ATLASSIAN, GITLAB_SERVER)}
PROVIDERS = {
    JIRA: TicketSystem(JIRA, "atlassian", "JIRA_BASE_URL", "JIRA_USER_EMAIL", "JIRA_API_TOKEN"),
    CONFLUENCE: TicketSystem(
        CONFLUENCE, "atlassian", "CONFLUENCE_BASE_URL", "CONFLUENCE_USER_EMAIL", "CONFLUENCE_API_TOKEN"
    ),
    GITLAB: TicketSystem(GITLAB, "gitlab", "GITLAB_BASE_URL", "", "GITLAB_TOKEN"),
}


def outbound_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for outbound servers; it may not exist."""
    named = environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).absolute()
    data = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "/", ".local", "share")
    return Path(data) / "aop" / "outbound"


def server_command(
    server: OutboundServer, providers: frozenset[str], environ: Mapping[str, str], *, may_approve: bool = False
) -> ServerCommand:
    """Return the command that starts a server. Raises: OutboundServerMissing, TicketSettingMissing."""
    place = outbound_folder(environ) / server.name
    program, words = _program(server, place, environ)
    if server.name == "gitlab":
        own = _gitlab_environment(environ, gitlab.denied_tools(may_approve=may_approve))
    else:
        own = _atlassian_environment(providers, environ)
    return ServerCommand(
        name=server.name,
        command=program,
        args=words,
        env={**{name: environ[name] for name in (*PASSED_ON, *_NETWORK) if name in environ}, **own},
        folder=str(place) if place.is_dir() else "/",
        token=" or ".join(PROVIDERS[name].token for name in sorted(providers)),
        call_seconds=_seconds(environ, CALL_SECONDS_VARIABLE, (CALL_SECONDS,))[0],
    )


def waits(environ: Mapping[str, str]) -> tuple[float, ...]:
    """Return the seconds before each retry."""
    return _seconds(environ, RETRY_VARIABLE, RETRY_WAITS)


def listed_words(text: str) -> tuple[str, ...]:
    """Parse a list: a JSON array of texts, or words separated by commas."""
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except msgspec.DecodeError:
        return tuple(word.strip() for word in text.split(",") if word.strip())


def _program(server: OutboundServer, place: Path, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    named = environ.get(server.command, "").strip()
    if named:
        return named, listed_words(environ.get(server.arguments, ""))
    program = place / server.program
    node = shutil.which("node", path=environ.get("PATH", "")) if server.from_npm else None
    if not program.exists() or (server.from_npm and node is None):
        lacking = "Node.js" if program.exists() else f"The MCP server `{server.package}`"
        raise OutboundServerMissing(f"{lacking} is not installed.", server=server.name)
    if node is None:
        return str(program), server.words
    guard = quote(_NO_REDIRECTS_OF_NODE.format(program=json.dumps(str(program))))
    return node, ("--import", f"data:text/javascript,{guard}", str(program))


def _gitlab_environment(environ: Mapping[str, str], denied: str) -> dict[str, str]:
    provider = PROVIDERS[GITLAB]
    return {
        "GITLAB_API_URL": f"{checked_address(environ, provider.address)}/api/v4",
        "GITLAB_PERSONAL_ACCESS_TOKEN": environ[provider.token],
        "GITLAB_DISABLE_VERSION_CHECK": "true",
        "GITLAB_DENIED_TOOLS_REGEX": denied,
    }


def _atlassian_environment(providers: frozenset[str], environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {"READ_ONLY_MODE": "false"}
    tools: list[str] = []
    for name, table in ((JIRA, jira.TABLE), (CONFLUENCE, confluence.TABLE)):
        if name in providers:
            found.update(_atlassian_account(PROVIDERS[name], environ))
            tools += sorted({row.tool for row in table.values()})
    if JIRA in providers and not is_atlassian_cloud(environ[PROVIDERS[JIRA].address]):
        # Data Center has wiki text, which a translation there and back would change.
        found["DISABLE_JIRA_MARKUP_TRANSLATION"] = "true"
    return {**found, "ENABLED_TOOLS": ",".join(tools)}


def _atlassian_account(provider: TicketSystem, environ: Mapping[str, str]) -> dict[str, str]:
    address = checked_address(environ, provider.address)
    account, token = environ.get(provider.account, "").strip(), environ[provider.token]
    known = {f"{provider.name}_URL": address}
    if account:
        return {**known, f"{provider.name}_USERNAME": account, f"{provider.name}_API_TOKEN": token}
    return {**known, f"{provider.name}_PERSONAL_TOKEN": token}


def _seconds(environ: Mapping[str, str], name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    text = environ.get(name)
    if text is None:
        return default
    try:
        found = tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        found = (-1.0,)
    if not all(0 <= seconds <= 3_600 for seconds in found) or (len(default) == 1 and len(found) != 1):
        raise TicketSettingMissing(f"`{name}` is not a number of seconds.", missing=[name])
    return found
