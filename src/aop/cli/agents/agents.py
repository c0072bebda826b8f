"""`aop agents`: list the coding agents of this machine, install one, or test one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aop.adapters.agents.staff import ACP, WORKERS
from aop.adapters.agents.vendors.acp_commands import metered_vendor
from aop.adapters.agents.vendors.catalogue import Vendor, row_text, vendors_of
from aop.adapters.agents.vendors.install import FoundAgent, found_agent, install
from aop.adapters.agents.workers.command import DEFAULT_VARIABLE, split_command
from aop.cli.shell.terminal import Terminal
from aop.core.errors import AgentProviderNotConfigured, InvalidCliArgs, Json, NotARepository, UnsupportedAgentProvider
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.agents import Agents, Provider, Runtime, known_providers
from aop.supervisor.providers import ProviderPreference, provider_choices
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "words", metavar="install|test|show PROVIDER", nargs="*", help="install it, try one real turn, or print its row"
    )
    parser.add_argument("--agent-model", metavar="M", help="test: the model to use")
    parser.add_argument("--provider-config-env", metavar="V", help="test: the variable that holds the key")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, install or test."""
    agents = _agents_of(Path(arguments.repo))
    vendors = vendors_of(agents, os.environ)
    match arguments.words:
        case []:
            return _list(agents, vendors, terminal)
        case ["install", name]:
            return _install(_vendor(name, vendors), terminal)
        case ["test", name]:
            return _test(_vendor(name, vendors), arguments, terminal)
        case ["show", name]:
            row = row_text(_vendor(name, vendors))
            return terminal.result({"provider": name, "row": row}, row.rstrip("\n"))
        case _:
            raise InvalidCliArgs(
                "`aop agents` takes no words, `install PROVIDER`, `test PROVIDER` or `show PROVIDER`.",
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
    found = [found_agent(vendor, os.environ) for vendor in vendors.values()]
    used = _providers_by_role(agents, vendors)
    custom = _custom_agent(os.environ, vendors)
    width = max(map(len, known_providers(vendors)))
    lines = [f"{agent.provider:<{width}} {_agent_text(agent)}" for agent in found]
    lines += [f"{Provider.CUSTOM:<{width}} {custom}"] if custom else []
    roles = ", ".join(f"{provider} as {role}" for role, provider in used.items())
    lines.append(f"A run here would use: {roles or 'no agent; choose one with `--agent-provider`'}")
    data = {"agents": msgspec.to_builtins(found), "custom": custom, "roles": dict[str, Json](used)}
    return terminal.result(data, "\n".join(lines))


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
    login = "; its own login is not used" if agent.has_login and not agent.has_key else ""
    key = f"key in {agent.key_variable}" if agent.has_key else f"no key: set {agent.key_variable}{login}"
    metered = "" if agent.metered else "; not metered: it sees its key, and its usage is its own report"
    return f"{version}{tested}, {where}{f'; {key}' if agent.key_variable else ''}{metered}{tried}"


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


def _test(vendor: Vendor, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.cli.agents.trial import run_trial

    settings = Settings.from_env(os.environ)
    trial = run_trial(vendor, settings, terminal.say, model=arguments.agent_model, config=arguments.provider_config_env)
    used = trial.usage
    tokens = "unknown" if used is None else f"{used.input_tokens} in, {used.output_tokens} out"
    text = f"{vendor.provider} called a tool of AOP and ended its turn, in {trial.seconds:.1f} s."
    lines = [text, f"  tokens: {tokens}", f"  sandbox: {trial.sandbox}"]
    return terminal.result(msgspec.to_builtins(trial), "\n".join(lines))
