"""Agents: the coding agents and models of a run, and their MCP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from aop.adapters.agents import contexts, staff
from aop.adapters.agents.gated import chosen_agent, workflow_scratch
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.brains.ports import Brain
from aop.core.roles import Role
from aop.gated.driver import Agent
from aop.kernel.config.agents import known_providers
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.tokens import Tokens
from aop.supervisor.turns import Staff
from aop.supervisor.workers import ProviderChoice, Worker
from aop.wiring.build import App
from aop.wiring.models import build_brain

ServeMcp: TypeAlias = Callable[[Gateway, Tokens, Callable[[str], None]], AbstractContextManager[str]]
"""Serves MCP over HTTP for as long as the context lasts, and gives the address."""


def providers_here(app: App) -> tuple[str, ...]:
    """Return the names of all providers: AOP's, the repository's and the user's. Raises: InvalidConfiguration."""
    return known_providers(vendors_of(app.gateway.kernel.config().agents, app.settings.environ))


def agent_staff(app: App, choices: Mapping[Role, ProviderChoice], mcp_url: str = "") -> Staff:
    """Return the chosen workers; those that use MCP call this address.

    Raises: MissingRolePrompt, ProviderAuthMissing, AgentProviderNotConfigured.
    """
    kernel, environ = app.gateway.kernel, app.settings.environ
    commands = contexts.command_context(kernel, app.root, environ, staff.feature_scratch(kernel))
    sessions = contexts.session_context(kernel, app.root, environ, app.tokens, mcp_url, network=app.settings.network)

    def model_worker(model: str | None) -> Worker:
        from aop.adapters.agents.workers.model import ModelContext, ModelWorker

        context = ModelContext(
            gateway=app.gateway, scratches=sessions.scratches, logs=commands.logs, seconds=commands.timeouts.seconds
        )
        return ModelWorker(build_brain(app.settings, chosen=model), context)

    workers = staff.chosen_workers(choices, environ, commands, sessions, model_worker)
    if app.telemetry is not None:
        workers = {role: app.telemetry.trace_worker(worker) for role, worker in workers.items()}
    providers = staff.model_providers(choices, environ, vendors_of(kernel.config().agents, environ))
    prompts = staff.role_prompts(app.repository, kernel.config())
    return staff.ChosenStaff(
        choices,
        prompts,
        workers,
        providers,
        # Looked up for each turn: a person gives a price while the run waits for it.
        lambda choice: staff.unpriced_model(choice, vendors_of(kernel.config().agents, environ), environ),
    )


def gated_agent(app: App, choice: ProviderChoice, mcp_url: str = "") -> Agent:
    """Return the chosen agent of a gated workflow; one that uses MCP calls this address.

    Raises: ProviderAuthMissing, AgentProviderNotConfigured, and the refusals of a model that is not configured.
    """
    kernel, environ = app.gateway.kernel, app.settings.environ
    commands = contexts.command_context(kernel, app.root, environ, workflow_scratch(kernel))
    sessions = contexts.session_context(kernel, app.root, environ, app.tokens, mcp_url, network=app.settings.network)

    def brain(model: str | None) -> Brain:
        return build_brain(app.settings, chosen=model)

    return chosen_agent(choice, environ, commands, sessions, gateway=app.gateway, brain=brain)


def mcp_server_for(
    app: App, choices: Mapping[Role, ProviderChoice], serve: ServeMcp, log: Callable[[str], None]
) -> AbstractContextManager[str]:
    """Serve MCP if one of the agents needs it; give the address, or an empty text."""
    if not staff.needs_mcp_server(choices, app.settings.environ):
        return nullcontext("")
    kernel = app.gateway.kernel
    why = kernel.processes.why_ports_stay_open(kernel.config().policy.execution.sandbox)
    if why:
        log(f"aop: agents can reach the whole network, not only the two ports that they need: {why}.")
    return serve(app.gateway, app.tokens, log)
