"""Agents: the coding agents and models of a run, and their MCP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from aop.adapters.agents import contexts, staff
from aop.adapters.agents.gated import chosen_agent, workflow_scratch
from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.reporting.call_log import FileCallLog
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.brains.ports import Brain
from aop.core.errors import (
    AgentProviderNotConfigured,
    AgentTimedOut,
    Fault,
    ProviderAuthMissing,
    Refusal,
    UnsupportedAgentProvider,
)
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.gated.driver import Agent
from aop.kernel.config.agents import known_providers
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import Tokens
from aop.kernel.record.documents.usage import Usage
from aop.supervisor.turns import Staff
from aop.supervisor.workers import ProviderChoice, Worker, without_added_secrets
from aop.wiring.build import App, Settings, worker_kernel
from aop.wiring.catalogue import CATALOGUE
from aop.wiring.late_parts import turn_workers
from aop.wiring.models import build_brain

if TYPE_CHECKING:  # turns of other machines are few commands' business
    from aop.adapters.agents.orders.turn_orders import TurnAnswer, TurnOrder
    from aop.adapters.fleet.runs.turn_runs import TurnPlace

ServeMcp: TypeAlias = Callable[[Gateway, Tokens, Callable[[str], None]], AbstractContextManager[str]]
"""Serves MCP over HTTP for as long as the context lasts, and gives the address."""
Tell: TypeAlias = Callable[[FeatureId, str], None]


def providers_here(app: App) -> tuple[str, ...]:
    """Return the names of all providers: AOP's, the repository's and the user's. Raises: InvalidConfiguration."""
    return known_providers(vendors_of(app.gateway.kernel.config().agents, app.settings.environ))


def agent_staff(
    app: App, choices: Mapping[Role, ProviderChoice], mcp_url: str = "", *, tell: Tell | None = None
) -> Staff:
    """Return the chosen workers; those that use MCP call this address.

    With `tell`, workers of other machines take their turns where there are any.
    Raises: MissingRolePrompt, ProviderAuthMissing, AgentProviderNotConfigured.
    """
    kernel, environ = app.gateway.kernel, app.settings.environ
    workers = _workers(app, choices, mcp_url)
    if app.telemetry is not None:
        workers = {role: app.telemetry.trace_worker(worker) for role, worker in workers.items()}
    elsewhere = None if tell is None else turn_workers(app.repository, environ)
    if tell is not None and elsewhere is not None:
        from aop.adapters.agents.orders.ordered_turns import OrderedTurns, OrderedWorker

        turns = OrderedTurns(app.gateway, elsewhere, app.root, tell)
        workers = {role: OrderedWorker(turns, worker) for role, worker in workers.items()}
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


def _workers(
    app: App,
    choices: Mapping[Role, ProviderChoice],
    mcp_url: str,
    place: TurnPlace | None = None,
) -> dict[Role, Worker]:
    """Return the workers of a run, or of one turn that a leader elsewhere ordered."""
    kernel, environ, network = app.gateway.kernel, app.settings.environ, app.settings.network
    logs = None if place is None else place.folder
    commands = contexts.command_context(kernel, app.root, environ, staff.feature_scratch(kernel), logs=logs)
    sessions = contexts.session_context(kernel, app.root, environ, app.tokens, mcp_url, network=network, logs=logs)
    if place is not None:
        reason = place.stopped

        def stopped(_feature_id: FeatureId) -> str:
            return reason()

        commands = msgspec.structs.replace(commands, stopped=stopped)
        sessions = msgspec.structs.replace(sessions, stopped=stopped)

    def model_worker(model: str | None) -> Worker:
        from aop.adapters.agents.workers.model import ModelContext, ModelWorker

        context = ModelContext(
            gateway=app.gateway, scratches=sessions.scratches, logs=commands.logs, seconds=commands.timeouts.seconds
        )
        return ModelWorker(build_brain(app.settings, chosen=model), context)

    return staff.chosen_workers(choices, environ, commands, sessions, model_worker)


def take_turn(place: TurnPlace, settings: Settings, serve: ServeMcp) -> TurnAnswer:
    """Let a coding agent of this machine take a turn that a leader elsewhere ordered."""
    from aop.adapters.agents.orders.turn_orders import TurnAnswer, TurnOrder, refusal_value

    order = msgspec.convert(place.order, TurnOrder)
    given = order.given
    choice = ProviderChoice(provider=given.provider, model=given.model, provider_config_ref=given.provider_config_ref)
    choices = dict.fromkeys(staff.WORKERS, choice)
    with _app_of_turn(place, order, settings) as app:
        redact = app.gateway.kernel.redact
        try:
            if reason := place.stopped():
                raise AgentTimedOut(f"The agent was stopped: {reason}")
            _workers(app, choices, "")
        except (AgentProviderNotConfigured, ProviderAuthMissing, UnsupportedAgentProvider) as refusal:
            return TurnAnswer(worker=place.worker, unable=f"the worker {place.worker} cannot: {refusal.message}")
        except Refusal as refusal:
            return TurnAnswer(worker=place.worker, refusal=refusal_value(refusal, redact))
        try:
            with mcp_server_for(app, choices, serve, place.say) as mcp_url:
                workers = _workers(app, choices, mcp_url, place)
                output = without_added_secrets(workers[order.role].turn(given), redact)
                return TurnAnswer(worker=place.worker, output=output)
        except Refusal as refusal:
            return TurnAnswer(worker=place.worker, refusal=refusal_value(refusal, redact))


@contextmanager
def _app_of_turn(place: TurnPlace, order: TurnOrder, settings: Settings) -> Iterator[App]:
    """Open a clone for one turn: with a record that holds what the order carries, and ends with it."""
    from aop.adapters.agents.orders.relayed_tools import RelayingGateway
    from aop.adapters.agents.orders.turn_orders import enter_documents

    base_branch = order.config.policy.worktree.base_branch
    kernel = worker_kernel(settings, place.repository, place.folder, lambda: order.config, base_branch)
    record, calls = kernel.record, FileCallLog(place.folder / "calls.jsonl")
    if not isinstance(record, SqliteRecord):
        raise Fault("The record of a turn is a file.")
    with closing(record), closing(calls):
        enter_documents(record, order, msgspec.convert(place.earlier, tuple[Usage | None, ...]))
        version = order.documents.state.version
        yield App(
            gateway=RelayingGateway(
                msgspec.structs.replace(kernel, calls=calls), CATALOGUE, place.call, version=version
            ),
            repository=place.repository,
            record=record,
            call_log=calls,
            settings=settings,
            person=Principal(role=order.role, actor="worker"),
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
