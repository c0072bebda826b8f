"""Installation of the outbound MCP servers: pinned versions, each in its folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.machine.program_folders import InstallProblem, npm_install, replace_folder, run_installer
from aop.adapters.tickets.setup.servers import PROVIDERS, SERVERS, OutboundServer, TicketSystem, outbound_folder
from aop.core.errors import OutboundInstallFailed

_DIST_INFO = re.compile(r"mcp_atlassian-(\d[^-]*)\.dist-info")


class FoundProvider(Struct, frozen=True, kw_only=True):
    """A ticket system on this machine: its server and its variables."""

    provider: str
    package: str
    installed: bool
    source: str
    """`aop` if AOP installed it, `command` if a variable names it, empty if there is none."""
    version: str | None
    """Null if AOP did not install it."""
    tested_version: str
    """The version that AOP is tested with, and installs."""
    variables: Mapping[str, bool]
    """The needed variables, and whether each is set."""
    usable: bool
    """Whether tickets can use it."""


def found_provider(provider: TicketSystem, environ: Mapping[str, str]) -> FoundProvider:
    """Return the state of a provider's server and variables."""
    server = SERVERS[provider.server]
    version = installed_version(server, outbound_folder(environ) / server.name)
    source = "command" if environ.get(server.command, "").strip() else "aop" if version else ""
    variables = {name: bool(environ.get(name, "").strip()) for name in (provider.address, provider.token)}
    return FoundProvider(
        provider=provider.name.lower(),
        package=server.package,
        installed=bool(source),
        source=source,
        version=version if source == "aop" else None,
        tested_version=server.version,
        variables=variables,
        usable=bool(source) and all(variables.values()),
    )


def found_providers(environ: Mapping[str, str]) -> list[FoundProvider]:
    """Return the state of all providers."""
    return [found_provider(provider, environ) for provider in PROVIDERS.values()]


def installed_version(server: OutboundServer, place: Path) -> str | None:
    """Return the installed version of a server, or None."""
    if not server.from_npm:
        found = [_DIST_INFO.fullmatch(path.name) for path in place.glob("lib/*/site-packages/mcp_atlassian-*")]
        return next((match[1] for match in found if match), None)
    try:
        package = msgspec.json.decode((place / "node_modules" / server.package / "package.json").read_bytes())
        return str(package["version"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None


def install(server: OutboundServer, environ: Mapping[str, str]) -> str:
    """Install the tested version of a server into its own folder; return its version. Raises: OutboundInstallFailed."""

    def fill(new: Path) -> str:
        if server.from_npm:
            npm_install(new, f"{server.package}@{server.version}", environ)
        else:
            _pip_install(new, f"{server.package}=={server.version}", environ)
        version = installed_version(server, new)
        if version != server.version:
            raise InstallProblem(f"`{server.package}` was installed in version {version}, not {server.version}.")
        return version

    try:
        return replace_folder(outbound_folder(environ) / server.name, fill)
    except InstallProblem as problem:
        raise OutboundInstallFailed(str(problem), hint=problem.hint, server=server.name) from problem


def _pip_install(folder: Path, package: str, environ: Mapping[str, str]) -> None:
    """Install a package with pip into its own environment, since it needs another `mcp` than AOP."""
    run_installer("venv", [sys.executable, "-m", "venv", str(folder)], package, environ)
    options = ["--disable-pip-version-check", "--no-input", "--quiet"]
    run_installer("pip", [str(folder / "bin/python"), "-m", "pip", "install", *options, package], package, environ)
