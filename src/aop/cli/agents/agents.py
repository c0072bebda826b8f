"""`aop agents`: list the coding agents of this machine, install one, or test one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aop.adapters.agents.staff import ACP, WORKERS
from aop.adapters.agents.vendors.acp_families import family_of
from aop.adapters.agents.vendors.catalogue import VENDORS, Vendor
from aop.adapters.agents.vendors.install import FoundAgent, found_agent, install
from aop.adapters.agents.workers.command import DEFAULT_VARIABLE, split_command
from aop.cli.shell.terminal import Terminal
from aop.core.errors import AgentProviderNotConfigured, InvalidCliArgs, Json, NotARepository, UnsupportedAgentProvider
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.agents import Provider, Runtime
from aop.supervisor.providers import ProviderPreference, provider_choices
from aop.wiring.build import Settings, build


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    known = "|".join(VENDORS)
    parser.add_argument("words", metavar="install|test PROVIDER", nargs="*", help=f"PROVIDER is {known}")
    parser.add_argument("--agent-model", metavar="M", help="test: the model to use")
    parser.add_argument("--provider-config-env", metavar="V", help="test: the variable that holds the key")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List, install or test."""
    match arguments.words:
        case []:
            return _list(Path(arguments.repo), terminal)
        case ["install", name]:
            return _install(_vendor(name), terminal)
        case ["test", name]:
            return _test(_vendor(name), arguments, terminal)
        case _:
            raise InvalidCliArgs(
                "`aop agents` takes no words, `install PROVIDER` or `test PROVIDER`.",
                hint=f"The provider is one of: {', '.join(VENDORS)}.",
            )


def _vendor(name: str) -> Vendor:
    vendor = next((vendor for vendor in VENDORS.values() if vendor.provider == name), None)
    if vendor is None:
        shown = ascii(name[:80])[1:-1]
        meant = did_you_mean(name, VENDORS)
        raise UnsupportedAgentProvider(
            f"AOP cannot start the coding agent `{shown}`.{meant}",
            hint=f"Use one of: {', '.join(VENDORS)}.",
            provider=shown,
        )
    return vendor


def _list(folder: Path, terminal: Terminal) -> int:
    found = [found_agent(vendor, os.environ) for vendor in VENDORS.values()]
    used = _providers_by_role(folder)
    custom = _custom_agent(os.environ)
    lines = [f"{agent.provider:<8} {_agent_text(agent)}" for agent in found]
    lines += [f"{Provider.CUSTOM:<8} {custom}"] if custom else []
    roles = ", ".join(f"{provider} as {role}" for role, provider in used.items())
    lines.append(f"A run here would use: {roles or 'no agent; choose one with `--agent-provider`'}")
    data = {"agents": msgspec.to_builtins(found), "custom": custom, "roles": dict[str, Json](used)}
    return terminal.result(data, "\n".join(lines))


def _providers_by_role(folder: Path) -> dict[str, str]:
    """Return the provider of each role, by environment and configuration."""
    settings = Settings.from_env(os.environ)
    try:
        with build(folder, settings) as app:
            runtime = app.gateway.kernel.config().agents.runtime
    except NotARepository:
        runtime = Runtime()
    try:
        chosen = provider_choices(ProviderPreference(), ProviderPreference.from_env(settings.environ), runtime)
    except AgentProviderNotConfigured:
        return {}
    return {str(role): chosen[role].provider for role in WORKERS}


def _agent_text(agent: FoundAgent) -> str:
    if not agent.installed:
        return f"not installed. Install {agent.tested_version} with: aop agents install {agent.provider}"
    where = "installed by AOP" if agent.source == "aop" else "on the PATH"
    version = agent.version or "unknown version"
    tested = "" if agent.version == agent.tested_version else f" (tested with {agent.tested_version})"
    login = "; its own login is not used" if agent.has_login and not agent.has_key else ""
    key = f"key in {agent.key_variable}" if agent.has_key else f"no key: set {agent.key_variable}{login}"
    return f"{version}{tested}, {where}; {key}"


def _custom_agent(environ: Mapping[str, str]) -> str | None:
    """Describe the user's own agent command, if there is one."""
    command = environ.get(DEFAULT_VARIABLE, "").strip()
    if not command:
        return None
    speaks = command.startswith(ACP)
    vendor = family_of(split_command(command.removeprefix(ACP)), environ) if speaks else None
    if vendor is not None:
        return f"your command, over ACP; AOP meters its model, and hides the key in {vendor.key_variable}"
    return (
        f"your command{', over ACP' if speaks else ''}; AOP does not know its model: its usage is not metered, and it"
        " sees the variables of `execution.env_allowlist`"
    )


def _install(vendor: Vendor, terminal: Terminal) -> int:
    terminal.say(f"aop: npm is installing {vendor.package}@{vendor.version}; this takes a minute.")
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
