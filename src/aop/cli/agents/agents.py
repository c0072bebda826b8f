"""`aop agents`: list the coding agents here; install, log in or test one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aop.adapters.agents.logins.login_sessions import run_own_login
from aop.adapters.agents.logins.vendor_logins import LOGINS, login_of, login_state
from aop.adapters.agents.staff import ACP, WORKERS
from aop.adapters.agents.vendors.acp_commands import metered_vendor
from aop.adapters.agents.vendors.catalogue import Vendor, row_text, vendors_of
from aop.adapters.agents.vendors.install import FoundAgent, found_agent, install
from aop.adapters.agents.vendors.programs import installed_program
from aop.adapters.agents.workers.command import DEFAULT_VARIABLE, split_command
from aop.adapters.agents.workers.vendor_session import ModelChoice
from aop.adapters.machine.agent_signs import sign_of_agent
from aop.cli.shell.terminal import Terminal
from aop.core.errors import (
    AgentProviderNotConfigured,
    InvalidCliArgs,
    Json,
    NotARepository,
    PersonRequired,
    UnsupportedAgentProvider,
)
from aop.core.text.suggestions import did_you_mean
from aop.core.text.visible import visible
from aop.kernel.config.agents import Agents, Provider, Runtime, known_providers
from aop.kernel.record.spending import SELF_REPORTED
from aop.supervisor.providers import ProviderPreference, provider_choices
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "words",
        metavar="install|login|test|show PROVIDER",
        nargs="*",
        help="install it, run its own log-in, try one real turn, or print its row",
    )
    parser.add_argument("--agent-model", metavar="M", help="test: the model to use")
    parser.add_argument("--provider-config-env", metavar="V", help="test: the variable that holds the key")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, install, log in or test."""
    agents = _agents_of(Path(arguments.repo))
    vendors = vendors_of(agents, os.environ)
    match arguments.words:
        case []:
            return _list(agents, vendors, terminal)
        case ["install", name]:
            return _install(_vendor(name, vendors), terminal)
        case ["login", name]:
            return _log_in(_vendor(name, vendors), terminal, is_json=arguments.json)
        case ["test", name]:
            vendor = _vendor(name, vendors)
            return _test(vendor, arguments, terminal, uses_login=_uses_login(agents, vendor))
        case ["show", name]:
            row = row_text(_vendor(name, vendors))
            return terminal.result({"provider": name, "row": row}, row.rstrip("\n"))
        case _:
            raise InvalidCliArgs(
                "`aop agents` takes no words, or `install`, `login`, `test` or `show` and a PROVIDER.",
                hint=f"The provider is one of: {', '.join(vendors)}.",
            )


def _agents_of(folder: Path) -> Agents | None:
    """Return the agents.yaml of the repository here, if there is one."""
    try:
        with build(folder, Settings.from_env(os.environ)) as app:
            return app.gateway.kernel.config().agents
    except NotARepository:
        return None


def _vendor(name: str, vendors: Mapping[str, Vendor]) -> Vendor:
    vendor = vendors.get(name)
    if vendor is None:
        shown = ascii(name[:80])[1:-1]
        meant = did_you_mean(name, vendors)
        raise UnsupportedAgentProvider(
            f"AOP cannot start the coding agent `{shown}`.{meant}",
            hint=f"Use one of: {', '.join(vendors)}.",
            provider=shown,
        )
    return vendor


def _list(agents: Agents | None, vendors: Mapping[str, Vendor], terminal: Terminal) -> int:
    found = [
        found_agent(vendor, os.environ, login_state(vendor, os.environ) if _uses_login(agents, vendor) else None)
        for vendor in vendors.values()
    ]
    used = _providers_by_role(agents, vendors)
    custom = _custom_agent(os.environ, vendors)
    width = max(map(len, known_providers(vendors)))
    lines = [f"{agent.provider:<{width}} {_agent_text(agent)}" for agent in found]
    lines += [f"{Provider.CUSTOM:<{width}} {custom}"] if custom else []
    roles = ", ".join(f"{provider} as {role}" for role, provider in used.items())
    lines.append(f"A run here would use: {roles or 'no agent; choose one with `--agent-provider`'}")
    data = {"agents": msgspec.to_builtins(found), "custom": custom, "roles": dict[str, Json](used)}
    return terminal.result(data, "\n".join(lines))


def _uses_login(agents: Agents | None, vendor: Vendor) -> bool:
    return agents is not None and agents.uses_login(vendor.provider)


def _providers_by_role(agents: Agents | None, vendors: Mapping[str, Vendor]) -> dict[str, str]:
    """Return the provider of each role, by environment and configuration."""
    runtime = agents.runtime if agents else Runtime()
    environment = ProviderPreference.from_env(os.environ)
    try:
        chosen = provider_choices(ProviderPreference(), environment, runtime, known=known_providers(vendors))
    except AgentProviderNotConfigured:
        return {}
    return {str(role): chosen[role].provider for role in WORKERS}


def _agent_text(agent: FoundAgent) -> str:
    tried = "" if agent.tried else "; not tried by AOP's own tests"
    if not agent.installed:
        how = (
            f"Install {agent.tested_version} with: aop agents install {agent.provider}" if agent.tested_version else ""
        )
        return f"not installed{tried}.{f' {how}' if how else ''}"
    where = "installed by AOP" if agent.source == "aop" else "on the PATH"
    version = agent.version or "unknown version"
    tested = "" if agent.tested_version in ("", agent.version) else f" (tested with {agent.tested_version})"
    key = _login_text(agent) if agent.uses_login else _key_text(agent)
    metered = "" if agent.metered else "; not metered: it sees its key, and its usage is its own report"
    return f"{version}{tested}, {where}{f'; {key}' if agent.key_variable else ''}{metered}{tried}"


def _key_text(agent: FoundAgent) -> str:
    unused = f"; its own log-in is not used: `login: {{{agent.provider}: true}}` in agents.yaml allows it"
    login = unused if agent.has_login and not agent.has_key else ""
    return f"key in {agent.key_variable}" if agent.has_key else f"no key: set {agent.key_variable}{login}"


def _login_text(agent: FoundAgent) -> str:
    if agent.login_problem:
        return f"its log-in cannot be used: {agent.login_problem} Log in with: aop agents login {agent.provider}"
    unused = f"; the key in {agent.key_variable} is not used" if agent.has_key else ""
    named = f" ({visible(agent.account)})" if agent.account else ""
    return f"its own log-in{named}, usage {SELF_REPORTED}{unused}"


def _log_in(vendor: Vendor, terminal: Terminal, *, is_json: bool) -> int:
    """Run the program's own log-in in the terminal of a person."""
    sign = sign_of_agent(os.environ)
    if sign:
        raise PersonRequired(f"Only a person logs in, and {sign}.")
    program, login = installed_program(vendor, os.environ), login_of(vendor)
    if program is None or login is None:
        raise AgentProviderNotConfigured(
            f"The coding agent `{vendor.provider}` is not installed, or AOP does not know its log-in.",
            hint=f"AOP knows the log-ins of: {', '.join(LOGINS)}. Install one with: aop agents install PROVIDER",
            provider=vendor.provider,
        )
    run_own_login(program, login, os.environ, output=sys.stderr.fileno() if is_json else None)
    copy = login.copy_from(os.environ)
    named = f" as {visible(copy.account)}" if copy.account else ""
    allows = f"`login: {{{vendor.provider}: true}}` in agents.yaml"
    text = f"`{vendor.provider}` is logged in{named}. AOP uses it where {allows} says so."
    return terminal.result({"provider": vendor.provider, "account": copy.account}, text)


def _custom_agent(environ: Mapping[str, str], vendors: Mapping[str, Vendor]) -> str | None:
    """Describe the user's own agent command, if there is one."""
    command = environ.get(DEFAULT_VARIABLE, "").strip()
    if not command:
        return None
    speaks = command.startswith(ACP)
    vendor = metered_vendor(split_command(command.removeprefix(ACP)), environ, vendors) if speaks else None
    if vendor is not None:
        return f"your command, over ACP; AOP meters its model, and hides the key in {vendor.row.key_variable}"
    return (
        f"your command{', over ACP' if speaks else ''}; AOP does not know its model: its usage is not metered, and it"
        " sees the variables of `execution.env_allowlist`"
    )


def _install(vendor: Vendor, terminal: Terminal) -> int:
    package = vendor.row.package
    if package is not None:
        terminal.say(f"aop: npm is installing {package.name}@{package.version}; this takes a minute.")
    version = install(vendor, os.environ)
    text = f"Installed {vendor.provider} {version}. Test it with: aop agents test {vendor.provider}"
    return terminal.result({"provider": vendor.provider, "version": version}, text)


def _test(vendor: Vendor, arguments: argparse.Namespace, terminal: Terminal, *, uses_login: bool) -> int:
    from aop.cli.agents.trial import run_trial, trial_lines

    settings = Settings.from_env(os.environ)
    wanted = ModelChoice(model=arguments.agent_model, config_ref=arguments.provider_config_env)
    trial = run_trial(vendor, settings, terminal.say, wanted, uses_login=uses_login)
    lines = trial_lines(trial, arguments.provider_config_env or vendor.row.key_variable or "", uses_login=uses_login)
    return terminal.result(msgspec.to_builtins(trial), "\n".join(lines))
