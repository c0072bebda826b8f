"""Trial of a coding agent: one turn with one tool call, in a scratch repository."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from aop.adapters.agents.vendors.catalogue import Vendor, row_text
from aop.adapters.agents.vendors.install import FoundAgent, found_agent
from aop.adapters.agents.workers.vendor_session import ModelChoice
from aop.adapters.config.locations import FOLDER
from aop.adapters.machine.clock import new_id
from aop.adapters.models.settings import known_prices, price_table
from aop.adapters.projects.sample_repository import SampleRepository
from aop.brains.prices import Price
from aop.cli.shell.mcp_server import serve_mcp
from aop.core.errors import NoUsableAnswer
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import marks_of, turn_spending
from aop.supervisor.providers import ROLES
from aop.supervisor.workers import Note, ProviderChoice, WorkerInput
from aop.wiring.agents import agent_staff, mcp_server_for
from aop.wiring.build import App, Settings, build

_FEATURE = FeatureId("trial")


class Trial(Struct, frozen=True, kw_only=True):
    """The result of one turn."""

    provider: str
    agent: FoundAgent
    model: str | None
    """The chosen model, or else the one that the program takes by itself, if that is known."""
    price: Price | None
    """Its price, if the agent is metered and a price is known."""
    price_date: str
    tools: int
    """The number of AOP's tools that it was offered; it called one."""
    seconds: float
    sandbox: str
    network: str
    """`closed`, or why the network is open."""
    usage: Usage | None


def run_trial(
    vendor: Vendor, settings: Settings, log: Callable[[str], None], wanted: ModelChoice, *, uses_login: bool
) -> Trial:
    """Let an agent call one tool. Raises: NoUsableAnswer, AgentProviderNotConfigured, ProviderAuthMissing."""
    choice = ProviderChoice(provider=vendor.provider, model=wanted.model, provider_config_ref=wanted.config_ref)
    with tempfile.TemporaryDirectory(prefix="aop-agent-") as folder:
        sample = SampleRepository(Path(folder) / "repository", settings.environ)
        login = f"login: {{{vendor.provider}: true}}\n" if uses_login else ""
        row = f"{row_text(vendor)}{login}".encode()
        sample.make({"README.md": b"A repository to try an agent in.\n", f"{FOLDER}/agents.yaml": row})
        with build(sample.root, settings) as app:
            return _turn(app, log, choice, vendor)


def _turn(app: App, log: Callable[[str], None], choice: ProviderChoice, vendor: Vendor) -> Trial:
    choices, word = dict.fromkeys(ROLES, choice), new_id("word")
    app.gateway.call(app.person, "feature.init", {"feature_id": _FEATURE})
    began = time.monotonic()
    with mcp_server_for(app, choices, serve_mcp, log) as mcp_url:
        worker = agent_staff(app, choices, mcp_url).worker(_FEATURE, Role.PLANNER)
        output = worker.turn(_trial_input(choice, word))
    if not isinstance(output, Note) or word not in output.note:
        raise NoUsableAnswer(f"`{choice.provider}` answered, but not with the note that was asked for.")
    seconds = time.monotonic() - began
    kernel, environ = app.gateway.kernel, app.settings.environ
    rules, endpoint = kernel.config().policy.execution, vendor.row.endpoint
    model = choice.model or vendor.row.default_model
    planner = Principal(role=Role.PLANNER, actor=f"planner:{_FEATURE}", features=frozenset({_FEATURE}))
    return Trial(
        provider=choice.provider,
        agent=found_agent(vendor, environ),
        model=model,
        price=known_prices(environ).of(f"{endpoint.family}:{model}") if endpoint else None,
        price_date=price_table().date,
        tools=len(app.gateway.tools_for(planner)),
        seconds=seconds,
        sandbox=kernel.processes.sandbox_level(rules.sandbox),
        network=kernel.processes.why_ports_stay_open(rules.sandbox) or "closed",
        usage=output.usage,
    )


def trial_lines(trial: Trial, key_variable: str, *, uses_login: bool) -> list[str]:
    """Return what a person reads of a trial, on one screen."""
    agent, price, used = trial.agent, trial.price, trial.usage or Usage()
    tested = "" if agent.tested_version in ("", agent.version) else f" (tested with {agent.tested_version})"
    cost = "unknown" if used.cost_usd is None else f"{used.cost_usd:.6f} USD"
    tokens = "unknown" if used.input_tokens is None else f"{used.input_tokens} in, {used.output_tokens} out"
    costs = (
        "none known" if price is None else f"{price.input:g} USD in, {price.output:g} USD out, as of {trial.price_date}"
    )
    told = "".join(f", {mark}" for mark in marks_of(turn_spending(used)))
    return [
        f"{trial.provider} called a tool of AOP and ended its turn, in {trial.seconds:.1f} s.",
        f"  version: {agent.version or 'unknown'}{tested}",
        "  log-in: its own"
        if uses_login
        else f"  key: {f'in {key_variable}' if key_variable else 'none that AOP knows'}",
        f"  model: {trial.model or 'the one that it takes by itself'}",
        f"  price: {costs}",
        f"  tools: {trial.tools} offered",
        f"  sandbox: {trial.sandbox}",
        f"  network: {'closed, but for AOP and its model' if trial.network == 'closed' else f'open: {trial.network}'}",
        f"  tokens: {tokens}{told}",
        f"  cost: {cost}{told if used.cost_usd is not None else ''}",
    ]


def _trial_input(choice: ProviderChoice, word: str) -> WorkerInput:
    return WorkerInput(
        role=Role.PLANNER,
        feature_id=_FEATURE,
        context_bundle={},
        instructions=f"This is a trial: plan nothing. Call the tool `submit_note` with the note `{word}`, and end.",
        last_tool_results=(),
        provider=choice.provider,
        model=choice.model,
        provider_config_ref=choice.provider_config_ref,
    )
