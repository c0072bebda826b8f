"""Supervise: run a supervisor here or in the background, and show its progress."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Literal, NoReturn

import msgspec

from aop.adapters.machine.background import run_in_background
from aop.adapters.machine.supervisor_lease import SupervisorLease
from aop.adapters.processes.orphans import end_children
from aop.adapters.storage.record.choice import WORKER
from aop.cli.run.supervision.arguments import preference_of
from aop.cli.run.supervision.base_gates import check_base_gates
from aop.cli.run.supervision.progress import Progress
from aop.cli.run.supervision.run_report import FeatureCounts, print_facts, read_facts
from aop.cli.run.supervision.signals import Stopping, stop_on_signals
from aop.cli.shell.exits import Exit
from aop.cli.shell.mcp_server import serve_mcp
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Interrupted, InvalidCliArgs, Refusal, SupervisorReplaced
from aop.core.text.counts import count
from aop.wiring.build import SPAN_ENDPOINTS, App
from aop.wiring.spec_intake import Intake
from aop.wiring.supervision import (
    RunCallbacks,
    RunPlan,
    plan_run,
    providers_of_newest_run,
    record_order,
    supervise,
)
from aop.wiring.supervisor_lease import is_led_by_workers, leases_of, leave_to_worker, take_lease


def plan_of(app: App, arguments: argparse.Namespace, intake: Intake | None = None) -> RunPlan:
    """Check a run's agents and limits; without specs it continues the newest. Raises: InvalidCliArgs, as `plan_run`."""
    limit = arguments.max_active
    if limit is not None and limit < 1:
        raise InvalidCliArgs("`--max-active` must be at least 1.", max_active=limit)
    preference = preference_of(arguments)
    if intake is None:
        return plan_run(app, preference, max_active=limit, before=providers_of_newest_run(app))
    return plan_run(app, preference, intake.features, intake.depends_on, max_active=limit)


def start_run(
    app: App,
    plan: RunPlan,
    arguments: argparse.Namespace,
    terminal: Terminal,
    *,
    before: Callable[[], object] = lambda: None,
    stands_by: bool = False,
) -> int:
    """Take the lease, check the base branch, do what comes before, and supervise here or in the background.

    Raises: SupervisorRunning, CallRefused.
    """
    if app.telemetry is None and any(app.settings.environ.get(name) for name in SPAN_ENDPOINTS):
        terminal.say("aop: spans are switched on, but OpenTelemetry is not installed: pip install 'aop[otel]'")
    with take_lease(leases_of(app.root, app.record), stands_by=stands_by) as lease:
        names = [feature.feature_id for feature in plan.features]
        plan = msgspec.structs.replace(plan, failing_base=check_base_gates(app, arguments, terminal, names))
        before()
        if arguments.wait:
            return supervise_here(app, plan, lease, terminal)
        if is_led_by_workers(app):
            return _leave_to_worker(app, plan, lease, terminal)
        lease.leave_to_child()
        app.close()
        return run_in_background(
            app.root / ".aop" / "supervisor.log",
            lambda ready: _in_child(arguments, plan, lease, ready),
            lambda pid: _report_start(plan, pid, terminal),
        )


def _leave_to_worker(app: App, plan: RunPlan, lease: SupervisorLease, terminal: Terminal) -> int:
    record_order(app, plan)
    names = [feature.feature_id for feature in plan.features]
    for name in names:
        call_tool(app, "run.add", {"feature_id": name, "depends_on": list(plan.depends_on.get(name, ()))})
    leave_to_worker(app, lease)
    what = count(len(names), "feature") if names else "the unfinished features"
    message = f"A worker of the platform leads {what}. Look with: aop status, aop inbox"
    return terminal.done({"pid": None, "features": list(names)}, message)


def _in_child(arguments: argparse.Namespace, plan: RunPlan, lease: SupervisorLease, ready: Callable[[], None]) -> int:
    with open_app(arguments) as app:
        lease.go_on(leases_of(app.root, app.record))
        try:
            return supervise_here(app, plan, lease, Terminal(json=False), ready=ready, until="ended")
        finally:
            lease.end()


def supervise_here(
    app: App,
    plan: RunPlan,
    lease: SupervisorLease,
    terminal: Terminal,
    *,
    ready: Callable[[], None] = lambda: None,
    until: Literal["settled", "ended"] = "settled",
) -> int:
    """Supervise in this process, until nothing can continue without a person, or every feature has ended."""
    progress = Progress(terminal, [feature.feature_id for feature in plan.features])
    with stop_on_signals() as stopping:
        callbacks = RunCallbacks(
            tell=progress,
            log=terminal.say,
            serve_mcp=serve_mcp,
            is_stopped=stopping.asked,
            report=FeatureCounts(app, terminal),
            leave=lambda lost: _leave(stopping, None if WORKER in app.settings.environ else lease, terminal, lost),
            ready=ready,
        )
        end = supervise(app, plan, lease, callbacks, until=until)
    facts = read_facts(app, end.board, changed=end.changed, seconds=progress.seconds())
    return print_facts(facts, terminal)


def _leave(stopping: Stopping, lease: SupervisorLease | None, terminal: Terminal, lost: Refusal | None) -> NoReturn:
    """End at once; a person who ends a run of their own has stopped it, and its lease says so."""
    code = Exit.WAITING
    if stopping.asked():
        if lease is not None:
            lease.stop()
        terminal.refused(Interrupted("Stopped.", hint="Continue with: aop resume"))
    elif lost is not None:
        lost.next_action = "Nothing that was recorded is lost. When this is mended, continue with: aop resume"
        code = terminal.refused(lost)
    else:
        terminal.refused(SupervisorReplaced("Another supervisor has taken over the work; this one ends."))
    end_children()
    stopping.leave(otherwise=code)


def _report_start(plan: RunPlan, pid: int, terminal: Terminal) -> int:
    features = [feature.feature_id for feature in plan.features]
    what = f"Started {count(len(features), 'feature')}" if features else "Resumed unfinished features"
    message = f"{what} in the background (process {pid}). Look with: aop status, aop inbox"
    return terminal.done({"pid": pid, "features": list(features)}, message)
