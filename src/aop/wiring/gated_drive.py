"""Gated drive: one agent on one workflow, with lock, MCP server and progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.files.locks import locked_file
from aop.adapters.processes.orphans import end_orphans
from aop.core.errors import AgentAtWork, Json
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.gated.driver import Drive, DriveEnded, DriveLimits
from aop.gated.tools.steer import refuse_without_plan
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.handed_in import Report
from aop.supervisor.providers import ROLES, ProviderPreference, provider_choice
from aop.supervisor.workers import ProviderChoice
from aop.wiring.agents import ServeMcp, gated_agent, mcp_server_for, providers_here
from aop.wiring.build import App, make_ready_for_threads


class DriveCallbacks(Struct, frozen=True, kw_only=True):
    """The caller's side of a drive."""

    tell: Callable[[str], None]
    """Takes a progress line of the workflow."""
    log: Callable[[str], None]
    serve_mcp: ServeMcp


def exclusive_drive(app: App, name: str) -> AbstractContextManager[int]:
    """Hold a workflow's lock: one agent at a time. Raises: AgentAtWork."""
    busy = AgentAtWork(f"An agent already works on the workflow `{name}`.", feature_id=name)
    return locked_file(app.root / ".aop" / "locks" / f"gated-{name}.lock", wait_seconds=0.0, refusal=busy)


def choose_agent(app: App, preference: ProviderPreference, name: str, master_plan: str | None) -> ProviderChoice:
    """Choose the agent, and check it and the plan before anything is changed.

    Raises: AgentProviderNotConfigured, UnsupportedAgentProvider, ProviderAuthMissing, and what the plan is refused for.
    """
    runtime = app.gateway.kernel.config().agents.runtime
    environment, known = ProviderPreference.from_env(app.settings.environ), providers_here(app)
    choice = provider_choice(Role.SWE, preference, environment, runtime, known=known)
    gated_agent(app, choice)
    refuse_without_plan(app.gateway.kernel, name, master_plan)
    return choice


def drive_agent(
    app: App, name: FeatureId, choice: ProviderChoice, limits: DriveLimits, callbacks: DriveCallbacks
) -> DriveEnded:
    """Drive an agent through a workflow that has been started."""
    end_orphans(app.root)
    make_ready_for_threads()
    watched = replace(app, gateway=ProgressGateway(app.gateway, callbacks.tell))
    with mcp_server_for(watched, dict.fromkeys(ROLES, choice), callbacks.serve_mcp, callbacks.log) as mcp_url:
        agent = gated_agent(watched, choice, mcp_url)
        return Drive(watched.gateway, name, agent, limits, callbacks.tell).to_the_end()


class ProgressGateway(Gateway):
    """A gateway that reports each call of the agent, by whichever way it arrives."""

    def __init__(self, gateway: Gateway, tell: Callable[[str], None]) -> None:
        super().__init__(gateway.kernel, gateway.tools)
        self._tell = tell

    def call(
        self,
        principal: Principal,
        tool_name: str,
        arguments: Json,
        *,
        operation_id: str | None = None,
        report: Report = lambda _line: None,
    ) -> Envelope:
        """Make one call, and report its result."""
        answer = super().call(principal, tool_name, arguments, operation_id=operation_id, report=report)
        if principal.role is Role.SWE:
            self._tell(f"{tool_name}: {_summary_of(arguments, answer)}")
        return answer


def _summary_of(arguments: Json, answer: Envelope) -> str:
    if answer.error is not None:
        return f"refused, {answer.error['code']}"
    data: Mapping[str, Any] = answer.data
    if "status" in data:
        goal = str(data.get("task") or data.get("output") or "").partition("\n")[0].strip()
        return f"{data['status']}: {goal[:120]}" if goal else str(data["status"])
    where = arguments.get("file_path") or arguments.get("path") if isinstance(arguments, Mapping) else ""
    return f"{where or 'done'}{': not applied' if data.get('success') is False else ''}"
