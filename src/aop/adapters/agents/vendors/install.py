"""Installation of coding agents: what is installed, and pinned installs from npm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.agents.vendors.catalogue import Vendor
from aop.adapters.agents.vendors.programs import agents_folder, installed_program, own_program
from aop.adapters.machine.program_folders import InstallProblem, npm_install, replace_folder
from aop.core.errors import AgentInstallFailed

_VERSION = re.compile(r"\d+\.\d+\.\d+[A-Za-z0-9.-]*")
_LOOK_SECONDS = 30


class LoginState(Struct, frozen=True, kw_only=True):
    """The state of an agent's own log-in."""

    account: str = ""
    problem: str = ""
    """Why it cannot be used."""


class FoundAgent(Struct, frozen=True, kw_only=True):
    """The state of one coding agent on this machine."""

    provider: str
    installed: bool
    source: str
    """`aop` for AOP's own installation, `path` for one on the PATH, empty if not installed."""
    version: str | None
    """As the program reports it; null if it reports none."""
    tested_version: str
    """The version that AOP is tested with and installs; empty if AOP installs none."""
    title: str
    tried: bool
    """Whether AOP's own tests start it."""
    metered: bool
    """Whether its requests go through AOP's meter."""
    key_variable: str
    has_key: bool
    has_login: bool
    """Whether its own log-in exists."""
    uses_login: bool = False
    """Whether the configuration lets it work with its own log-in instead of a key."""
    account: str = ""
    """The account of the log-in in use, as far as it names one."""
    login_problem: str = ""
    """Why the log-in in use cannot be used."""
    usable: bool
    """Whether a run can use it now."""


def found_agent(vendor: Vendor, environ: Mapping[str, str], login: LoginState | None = None) -> FoundAgent:
    """Find an agent, and ask it for its version; with its log-in, if it is used."""
    program = installed_program(vendor, environ)
    is_own = program == str(own_program(vendor, environ))
    home = Path(environ.get("HOME") or "/")
    has_key = bool(environ.get(vendor.row.key_variable or "", "").strip())
    return FoundAgent(
        provider=vendor.provider,
        installed=program is not None,
        source="" if program is None else "aop" if is_own else "path",
        version=None if program is None else version_of(program, environ),
        tested_version=vendor.version,
        title=vendor.row.title,
        tried=vendor.row.tried,
        metered=vendor.row.endpoint is not None,
        key_variable=vendor.row.key_variable or "",
        has_key=has_key,
        has_login=any((home / login).is_file() for login in vendor.logins),
        uses_login=login is not None,
        account="" if login is None else login.account,
        login_problem="" if login is None else login.problem,
        usable=program is not None and (has_key or vendor.row.endpoint is None if login is None else not login.problem),
    )


def version_of(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the version that a program reports."""
    env = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    try:
        said = subprocess.run(
            [program, "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOOK_SECONDS,
            env={**env, "DISABLE_AUTOUPDATER": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(said.stdout)
    return version[0] if version and said.returncode == 0 else None


def install(vendor: Vendor, environ: Mapping[str, str]) -> str:
    """Install the tested version, try it, and put it in place; return its version. Raises: AgentInstallFailed."""
    package = vendor.row.package
    if package is None:
        raise AgentInstallFailed(
            f"AOP has no package of `{vendor.provider}`.",
            hint=f"Install {vendor.row.title} as its vendor says; AOP takes `{vendor.program}` from the PATH.",
            provider=vendor.provider,
        )

    def fill(new: Path) -> str:
        npm_install(new, f"{package.name}@{package.version}", environ)
        version = version_of(str(new / "node_modules" / ".bin" / vendor.program), environ)
        if version != vendor.version:
            raise InstallProblem(f"npm installed version {version} of `{vendor.provider}` instead of {vendor.version}.")
        return version

    try:
        return replace_folder(agents_folder(environ) / vendor.provider, fill)
    except InstallProblem as problem:
        raise AgentInstallFailed(str(problem), hint=problem.hint, provider=vendor.provider) from problem
