"""Supervision: a run of the supervisor, from its lease to its agents and notices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct

from aop.adapters.machine.clock import new_id
from aop.adapters.machine.supervisor_lease import LeaseHolder, SupervisorLease
from aop.adapters.models.metering.usage_files import UsageFiles
from aop.adapters.processes.orphans import end_orphans
from aop.adapters.reporting.notifications import Notifications
from aop.core.errors import Fault, HubUnavailable, Json, Refusal
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.core.run import Engine
from aop.kernel.features.endings import ending_of
from aop.kernel.features.specs import dependencies_of, spec_text
from aop.kernel.gateway.principals import SUPERVISOR
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.runs import NewestRun, RunProvider
from aop.kernel.record.documents.usage import OpenTurn, Usage
from aop.kernel.record.port import newest_seq
from aop.supervisor.advice import ModelAdviser
from aop.supervisor.board import Board
from aop.supervisor.feature_run import FeatureRuns, RunLimits, limits_of
from aop.supervisor.killed_turns import count_killed_turns
from aop.supervisor.notices import Attention, NoNotifier, Notifier
from aop.supervisor.providers import NO_PROVIDERS, ProviderPreference, provider_choices
from aop.supervisor.specs.features import WantedFeature
from aop.supervisor.supervisor import NO_DEPENDENCIES, Supervisor
from aop.supervisor.turns import Staff
from aop.supervisor.workers import ProviderChoice
from aop.wiring.agents import ServeMcp, Tell, agent_staff, mcp_server_for, providers_here
from aop.wiring.build import App, make_ready_for_threads
from aop.wiring.leftovers import drop_ended_sessions
from aop.wiring.models import build_brain
from aop.wiring.server_lease import page_address

NOTIFICATION_SECONDS = 15.0
"""How long a run that has ended waits for notification targets that do not answer."""

WORKED_ON = (Status.PLANNING, Status.BUILDING, Status.QA)


class RunPlan(Struct, frozen=True, kw_only=True):
    """A run before it starts: its features, agents and limits, checked."""

    features: tuple[WantedFeature, ...]
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]]
    choices: Mapping[Role, ProviderChoice]
    limits: RunLimits
    failing_base: str = ""
    """Why the gates fail on the base branch, which a person accepted; empty if they pass."""


class RunCallbacks(Struct, frozen=True, kw_only=True):
    """The caller's side of a run."""

    tell: Tell
    """Takes a progress line of a feature."""
    log: Callable[[str], None]
    serve_mcp: ServeMcp
    is_stopped: Callable[[], bool]
    report: Callable[[], None]
    """Called on each pass."""
    leave: Callable[[Refusal | None], NoReturn]
    """Ends the process at once; called when the run is stopped or replaced, or with what it cannot work without."""
    ready: Callable[[], None] = lambda: None
    """Called when the run has started."""


class RunEnd(Struct, frozen=True, kw_only=True):
    """The board when a run ends, and whether the run changed anything."""

    board: Board
    changed: bool


class Supervision(Struct, frozen=True, kw_only=True):
    """A supervisor with its engine, ready to be started."""

    supervisor: Supervisor
    engine: Engine
    board: Board
    feature_runs: FeatureRuns


def plan_run(
    app: App,
    preference: ProviderPreference,
    features: tuple[WantedFeature, ...] = (),
    depends_on: Mapping[FeatureId, tuple[FeatureId, ...]] = NO_DEPENDENCIES,
    *,
    max_active: int | None = None,
    before: Mapping[str, RunProvider] = NO_PROVIDERS,
) -> RunPlan:
    """Choose and check the agents; those of an earlier run count where no setting names another.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider, ProviderAuthMissing.
    """
    config = app.gateway.kernel.config()
    environment = ProviderPreference.from_env(app.settings.environ)
    known = providers_here(app)
    chosen = provider_choices(preference, environment, config.agents.runtime, before, known=known)
    agent_staff(app, chosen)
    limits = limits_of(config.policy.supervisor, active_features=max_active)
    return RunPlan(features=features, depends_on=depends_on, choices=chosen, limits=limits)


def providers_of_newest_run(app: App) -> Mapping[str, RunProvider]:
    """Return the agents of the newest run, by role."""
    with app.record.read() as view:
        newest = view.get(NewestRun, NewestRun.key)
    return newest.facts.providers if newest else NO_PROVIDERS


def supervise(
    app: App,
    plan: RunPlan,
    lease: SupervisorLease,
    callbacks: RunCallbacks,
    *,
    until: Literal["settled", "ended"] = "settled",
) -> RunEnd:
    """Supervise the features of a plan, and those that an earlier run left unfinished."""
    wanted = [feature.feature_id for feature in plan.features]
    _wait_out_outages(app, callbacks)
    take_over(app, lease, wanted)
    with app.record.read() as view:
        before = newest_seq(view)
    rules = app.gateway.kernel.config().policy.notifications
    notifications = Notifications(
        app.gateway, app.settings.environ, rules, callbacks.log, pages=partial(page_address, app)
    )

    def is_over() -> bool:
        return callbacks.is_stopped() or app.gateway.is_replaced()

    with mcp_server_for(app, plan.choices, callbacks.serve_mcp, callbacks.log) as mcp_url:
        staff = agent_staff(app, plan.choices, mcp_url, tell=callbacks.tell)
        made = build_supervision(app, staff, plan.limits, callbacks.tell, notifications, may_advise=True)
        for killed in count_killed_turns(app.gateway, partial(_metered, UsageFiles(app.root))):
            callbacks.tell(killed.feature_id, f"{killed.worker}: a turn was killed; its cost counts")
        drop_ended_sessions(app)
        made.engine.start(made.feature_runs.kinds())
        left = _left_elsewhere(app) if app.hub is not None else {}
        features = list(dict.fromkeys([*made.supervisor.unfinished_features(), *left, *wanted]))
        made.supervisor.record_start(
            app.person.actor, features, plan.choices, plan.limits, failing_base=plan.failing_base
        )
        made.supervisor.submit(features, {**left, **plan.depends_on})
        callbacks.ready()
        made.supervisor.supervise(until=until, stopped=is_over, report=_with_merges_elsewhere(app, callbacks.report))
        if is_over():
            callbacks.leave(None)
        made.engine.close()
        notifications.close(NOTIFICATION_SECONDS)
    return RunEnd(board=made.board, changed=_is_changed(app, before))


def _wait_out_outages(app: App, callbacks: RunCallbacks) -> None:
    """Have a run whose record is in a database wait for it while it is away."""
    wait_out = getattr(app.record, "wait_out", None)
    if wait_out is not None:
        # A record on SQLite pays nothing for this.
        from aop.adapters.storage.record.postgres.reach.outage import Outage

        wait_out(Outage(callbacks.log, callbacks.is_stopped, callbacks.leave))


def build_supervision(
    app: App, staff: Staff, limits: RunLimits, tell: Tell, notifier: Notifier | None = None, *, may_advise: bool = False
) -> Supervision:
    """Assemble a supervisor with the durable engine; processes of a killed supervisor are ended."""
    # DBOS takes long to import, and only a process that supervises needs it.
    from aop.adapters.storage.engine.dbos import DurableEngine

    end_orphans(app.root)
    make_ready_for_threads()
    board, engine = Board(), DurableEngine(app.root / ".aop" / "engine.db")
    adviser = ModelAdviser(lambda: build_brain(app.settings), new_id) if may_advise else None
    feature_runs = FeatureRuns(app.gateway, staff, board, limits, tell, adviser=adviser)
    attention = Attention(app.gateway, notifier or NoNotifier(), tell)
    supervisor = Supervisor(app.gateway, engine, board, attention)
    return Supervision(supervisor=supervisor, engine=engine, board=board, feature_runs=feature_runs)


def take_over(app: App, lease: SupervisorLease, wanted: Sequence[FeatureId]) -> None:
    """Begin a new epoch and sign the lease; an older supervisor that lost its lock can then change nothing."""
    app.gateway.lead()
    _bring_work(app)
    lease.sign(LeaseHolder(pid=os.getpid(), since=app.gateway.kernel.now(), features=tuple(wanted)))


def _bring_work(app: App) -> None:
    """Have the work of other machines here, and the base branch where their merges left it."""
    if app.hub is None:
        return
    with app.record.read() as view:
        states = tuple(view.all(FeatureState))
    app.hub.fetch_work(states)
    app.hub.bring_base(app.gateway.kernel.config().policy.worktree.base_branch, states)


def _with_merges_elsewhere(app: App, report: Callable[[], None]) -> Callable[[], None]:
    """Return a report on each pass that first brings the merges of other machines here, when there are new ones."""
    if app.hub is None:
        return report
    with app.record.read() as view:
        seen = newest_seq(view)

    def follow() -> None:
        nonlocal seen
        with app.record.read() as view:
            newest = newest_seq(view)
            is_merged = any(view.journal(after=seen, kinds=("feature_merged",)))
        # If the hub is out of reach, it is tried again at the next pass.
        with suppress(HubUnavailable):
            if is_merged:
                _bring_work(app)
            seen = newest
        report()

    return follow


def record_order(app: App, plan: RunPlan) -> None:
    """Record a run that another process leads: its features, agents and limits."""
    features = [*_left_elsewhere(app), *(feature.feature_id for feature in plan.features)]
    order: dict[str, Json] = {
        "run": app.gateway.kernel.new_id("run"),
        "started_by": app.person.actor,
        "features": list(dict.fromkeys(features)),
        "providers": msgspec.to_builtins(plan.choices),
        "limits": msgspec.to_builtins(plan.limits),
        "failing_base": plan.failing_base[:2000],
    }
    answer = app.gateway.call(SUPERVISOR, "run.began", {"order": order})
    if answer.error is not None:
        raise Fault(f"The order of the run cannot be recorded: {answer.error['message']}")


def plan_of_newest_run(app: App) -> RunPlan:
    """Return the newest run as another process goes on with it. Raises: as `plan_run`."""
    with app.record.read() as view:
        newest = view.get(NewestRun, NewestRun.key)
    if newest is None:
        return plan_run(app, ProviderPreference())
    facts = newest.facts
    plan = plan_run(app, ProviderPreference(), max_active=facts.limits.get("active_features"), before=facts.providers)
    return msgspec.structs.replace(plan, failing_base=facts.failing_base)


def _left_elsewhere(app: App) -> dict[FeatureId, tuple[FeatureId, ...]]:
    """Return the features of the newest run that another machine may have left unfinished, with what they depend on."""
    kernel = app.gateway.kernel
    with app.record.read() as view:
        newest = view.get(NewestRun, NewestRun.key)
        named = [FeatureId(name) for name in newest.facts.features] if newest else []
        found = {name: view.get(FeatureState, name) for name in named if ending_of(view, name) is None}
    left = [name for name, state in found.items() if state is None or state.status in WORKED_ON]
    return {name: dependencies_of(name, spec_text(kernel, name) or "") for name in left}


def _metered(files: UsageFiles, turn: OpenTurn) -> Usage | None:
    return files.usage_since(turn.feature_id, Role(turn.worker), since=turn.began_at)


def _is_changed(app: App, before: int) -> bool:
    """Tell whether the journal has a new entry besides the start of the run."""
    with app.record.read() as view:
        return any(entry.event.kind != "run_began" for entry in view.journal(after=before, limit=2))
