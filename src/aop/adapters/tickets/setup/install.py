"""Which MCP servers of others are on this machine, and AOP's own installation of them: pinned, each in its folder."""

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
    """What is known, without asking it, of a system around tickets."""

    provider: str
    package: str
    installed: bool
    source: str
    """`aop` for AOP's own installation, `command` for one that a variable names, empty where there is none."""
    version: str | None
    """Null where AOP did not install it."""
    tested_version: str
    """The one that AOP is tested with, and installs."""
    variables: Mapping[str, bool]
    """What has to be set, and whether it is."""
    usable: bool
    """Whether everything is there that a ticket needs."""


def found_provider(provider: TicketSystem, environ: Mapping[str, str]) -> FoundProvider:
    """Look for the server of a provider, and for its settings."""
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
    """Look for all of them."""
    return [found_provider(provider, environ) for provider in PROVIDERS.values()]


def installed_version(server: OutboundServer, place: Path) -> str | None:
    """Return the version of a server in its folder, as its package says."""
    if not server.from_npm:
        found = [_DIST_INFO.fullmatch(path.name) for path in place.glob("lib/*/site-packages/mcp_atlassian-*")]
        return next((match[1] for match in found if match), None)
    try:
        package = msgspec.json.decode((place / "node_modules" / server.package / "package.json").read_bytes())
        return str(package["version"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None


def install(server: OutboundServer, environ: Mapping[str, str]) -> str:
    """Install the tested version of a server into its own folder; return its version.

    Raises: OutboundInstallFailed.
    """

    def fill(new: Path) -> str:
        if server.from_npm:
            npm_install(new, f"{server.package}@{server.version}", environ)
        else:
            _pip_install(new, f"{server.package}=={server.version}", environ)
        version = installed_version(server, new)
        if version != server.version:
            raise InstallProblem(f"What was installed as `{server.package}` is version {version}.")
        return version

    try:
        return replace_folder(outbound_folder(environ) / server.name, fill)
    except InstallProblem as problem:
        raise OutboundInstallFailed(str(problem), hint=problem.hint, server=server.name) from problem


def _pip_install(folder: Path, package: str, environ: Mapping[str, str]) -> None:
    """Have pip install one package into an environment of its own: it needs another `mcp` than AOP."""
    run_installer("venv", [sys.executable, "-m", "venv", str(folder)], package, environ)
    options = ["--disable-pip-version-check", "--no-input", "--quiet"]
    run_installer("pip", [str(folder / "bin/python"), "-m", "pip", "install", *options, package], package, environ)
