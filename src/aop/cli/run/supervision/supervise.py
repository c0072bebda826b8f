"""Supervises features for the commands that do: with the lease, in this process or in one in the background."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Literal

from msgspec import Struct

from aop.adapters.machine.background import run_in_background
from aop.adapters.machine.supervisor_lease import LeaseHolder, SupervisorLease, hold_lease
from aop.adapters.models.metering.usage_files import UsageFiles
from aop.adapters.processes.orphans import end_children
from aop.cli.run.supervision.report import FeatureCounts, exit_code, report, show
from aop.cli.run.supervision.signals import Stopping, stop_on_signals
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.kernel.record.documents.runs import NewestRun, RunProvider
from aop.kernel.record.documents.usage import OpenTurn, Usage
from aop.kernel.record.port import newest_seq
from aop.supervisor.feature_run import RunLimits, limits_of
from aop.supervisor.killed_turns import count_killed_turns
from aop.supervisor.providers import NO_PROVIDERS, ProviderPreference, provider_choices
from aop.supervisor.specs.features import WantedFeature
from aop.supervisor.supervisor import NO_DEPENDENCIES
from aop.supervisor.workers import ProviderChoice
from aop.wiring.build import SPAN_ENDPOINTS, App, Settings, agent_staff, build_notifications, build_supervision

LEASE = ".aop/supervisor.lock"
STOPPED = "aop: stopped. `aop resume` goes on where it was."
REPLACED = "aop: another supervisor has taken over, and goes on with the work; this one ends."
TELLING_SECONDS = 15.0
"""How long a run that is over waits for targets of notifications that do not answer."""


class Order(Struct, frozen=True, kw_only=True):
    """What a person wants done, checked as far as it can be before anything is changed."""

    features: tuple[WantedFeature, ...]
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]]
    choices: Mapping[Role, ProviderChoice]
    limits: RunLimits


def supervising_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what every command takes that supervises."""
    parser.add_argument("--agent-provider", metavar="P", help="which coding agent does the work")
    parser.add_argument("--agent-model", metavar="M", help="which model it uses")
    parser.add_argument("--provider-config-env", metavar="V", help="the variable that holds the provider's settings")
    parser.add_argument("--max-active", type=int, metavar="N", help="how many features are worked on at once")
    parser.add_argument("--wait", action="store_true", help="return when nothing can move without a person")


def order_of(
    app: App,
    settings: Settings,
    arguments: argparse.Namespace,
    features: tuple[WantedFeature, ...] = (),
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]] = NO_DEPENDENCIES,
    *,
    before: Mapping[str, RunProvider] = NO_PROVIDERS,
) -> Order:
    """Check who works, and how much at once; who worked `before` does so again where nothing names another.

    Raises: InvalidCliArgs, AgentProviderNotConfigured, UnsupportedAgentProvider, ProviderAuthMissing.
    """
    if arguments.max_active is not None and arguments.max_active < 1:
        raise InvalidCliArgs("`--max-active` must be at least 1.", max_active=arguments.max_active)
    wish = ProviderPreference(
        provider=arguments.agent_provider, model=arguments.agent_model, config_env=arguments.provider_config_env
    )
    config = app.gateway.kernel.config()
    chosen = provider_choices(wish, ProviderPreference.from_env(settings.environ), config.agents.runtime, before)
    agent_staff(app, settings, chosen)
    limits = limits_of(config.policy.supervisor, active_features=arguments.max_active)
    return Order(features=features, depends_on=depends_on, choices=chosen, limits=limits)


def agents_before(app: App) -> Mapping[str, RunProvider]:
    """Return who worked in each role of the newest run."""
    with app.record.read() as view:
        newest = view.get(NewestRun, NewestRun.key)
    return newest.facts.providers if newest else NO_PROVIDERS


def supervised(
    app: App,
    settings: Settings,
    order: Order,
    arguments: argparse.Namespace,
    terminal: Terminal,
    *,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Take the lease, do what comes before, and supervise.

    Raises: SupervisorRunning, and what `before` raises.
    """
    _tell_of_missing_spans(app, settings, terminal)
    with hold_lease(app.root / LEASE) as lease:
        before()
        if arguments.wait:
            return _supervise(app, settings, order, lease, terminal)
        app.close()
        return run_in_background(
            app.root / ".aop" / "supervisor.log",
            lambda ready: _in_child(arguments, order, lease, ready),
            lambda pid: _left_running(order, pid, terminal),
        )


def _in_child(arguments: argparse.Namespace, order: Order, lease: SupervisorLease, ready: Callable[[], None]) -> int:
    with open_app(arguments) as app:
        return _supervise(app, app.settings, order, lease, Terminal(json=False), ready=ready, until="ended")


def _supervise(
    app: App,
    settings: Settings,
    order: Order,
    lease: SupervisorLease,
    terminal: Terminal,
    *,
    ready: Callable[[], None] = lambda: None,
    until: Literal["settled", "ended"] = "settled",
) -> int:
    began = time.monotonic()
    wanted = [feature.feature_id for feature in order.features]
    _take_over(app, lease, wanted)

    def tell(feature_id: FeatureId, line: str) -> None:
        terminal.say(f"{time.monotonic() - began:7.2f} s  {feature_id}: {line}")

    before = _newest(app)
    notifications = build_notifications(app, settings, terminal.say)
    with open_door(app, settings, order.choices, terminal.say) as mcp_url, stop_on_signals() as stopping:
        staff = agent_staff(app, settings, order.choices, mcp_url)
        made = build_supervision(app, staff, order.limits, tell, notifications, settings=settings)
        for killed in count_killed_turns(app.gateway, partial(_metered, UsageFiles(app.root))):
            tell(killed.feature_id, f"{killed.worker}: a turn was killed; it counts")
        made.engine.start(made.feature_runs.kinds())
        features = _with_left_over(wanted, made.supervisor.unfinished_features())
        made.supervisor.record_start(app.person.actor, features, order.choices, order.limits)
        made.supervisor.submit(features, order.depends_on)
        ready()
        made.supervisor.supervise(
            until=until, stopped=lambda: _is_over(app, stopping), report=FeatureCounts(app, terminal)
        )
        if _is_over(app, stopping):
            terminal.say(STOPPED if stopping.asked() else REPLACED)
            end_children()
            stopping.leave(otherwise=Exit.WAITING)
        made.engine.close()
        notifications.close(TELLING_SECONDS)
    facts = report(app, made.board, changed=_is_changed(app, before), seconds=time.monotonic() - began)
    show(facts, terminal)
    return exit_code(facts)


def _take_over(app: App, lease: SupervisorLease, wanted: Sequence[FeatureId]) -> None:
    """Say who supervises now; if the lock was lost by an older one, that changes nothing any more."""
    app.gateway.lead()
    lease.sign(LeaseHolder(pid=os.getpid(), since=app.gateway.kernel.now(), features=tuple(wanted)))


def _is_over(app: App, stopping: Stopping) -> bool:
    return stopping.asked() or app.gateway.is_replaced()


def _metered(usage_files: UsageFiles, turn: OpenTurn) -> Usage | None:
    return usage_files.usage_since(turn.feature_id, Role(turn.worker), since=turn.began_at)


def open_door(
    app: App, settings: Settings, choices: Mapping[Role, ProviderChoice], log: Callable[[str], None]
) -> AbstractContextManager[str]:
    """Open the door by which agents come in that need one; give its address, or nothing if nobody does."""
    from aop.adapters.agents.staff import needs_mcp_server

    if not needs_mcp_server(choices, settings.environ):
        return nullcontext("")
    from aop.mcpserver.in_background import served_in_background

    kernel = app.gateway.kernel
    why = kernel.processes.why_ports_stay_open(kernel.config().policy.execution.sandbox)
    if why:
        log(f"aop: agents are not kept to the two ports that they need, and reach what you reach: {why}.")
    return served_in_background(app.gateway, app.tokens, log)


def _tell_of_missing_spans(app: App, settings: Settings, terminal: Terminal) -> None:
    if app.telemetry is None and any(settings.environ.get(name) for name in SPAN_ENDPOINTS):
        terminal.say("aop: spans are wanted, and what makes them is not installed: pip install 'aop[otel]'")


def _with_left_over(wanted: Sequence[FeatureId], left: Sequence[FeatureId]) -> list[FeatureId]:
    return list(dict.fromkeys([*left, *wanted]))


def _newest(app: App) -> int:
    with app.record.read() as view:
        return newest_seq(view)


def _is_changed(app: App, before: int) -> bool:
    """Tell whether anything happened since, besides the beginning of the run itself."""
    with app.record.read() as view:
        return any(entry.event.kind != "run_began" for entry in view.journal(after=before, limit=2))


def _left_running(order: Order, pid: int, terminal: Terminal) -> int:
    features = [feature.feature_id for feature in order.features]
    if terminal.json:
        terminal.object({"ok": True, "pid": pid, "features": list(features)})
    else:
        what = (
            count(len(features), "feature goes", "features go")
            if features
            else "What earlier runs left on its way goes"
        )
        terminal.say(f"{what} on in the background, as process {pid}: aop status, aop inbox")
    return Exit.OK
