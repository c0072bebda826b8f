"""`aop gated run`: an agent works through the plan until it is done, or a person is needed."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from aop.adapters.files.locks import locked_file
from aop.adapters.processes.orphans import end_orphans
from aop.cli.run.supervision.supervise import open_door
from aop.cli.shell.exits import Exit, exit_of
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import CallRefused, Terminal
from aop.core.errors import AgentAtWork, InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.gated.driver import Drive, DriveEnded, DriveEnding, DriveLimits
from aop.gated.tools.steer import refuse_without_plan
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.ports.handed_in import Report
from aop.supervisor.providers import ROLES, ProviderPreference, provider_choice
from aop.wiring.build import App, gated_agent, make_ready_for_threads

EXITS: Mapping[DriveEnding, Exit] = {
    DriveEnding.DONE: Exit.OK,
    DriveEnding.WAITS_FOR_APPROVAL: Exit.NEEDS_PERSON,
    DriveEnding.HALTED: Exit.NEEDS_PERSON,
    DriveEnding.ESCALATED: Exit.ESCALATED,
    DriveEnding.NOT_REVIEWED: Exit.FAILED,
    DriveEnding.NO_PROGRESS: Exit.FAILED,
    DriveEnding.TURNS_USED_UP: Exit.TRY_AGAIN,
    DriveEnding.TIME_IS_UP: Exit.TRY_AGAIN,
    DriveEnding.COST_CAP: Exit.NEEDS_PERSON,
}
HINTS: Mapping[DriveEnding, str] = {
    DriveEnding.ESCALATED: (
        "`aop inbox` shows its report. Answer with `aop gated resume --guidance TEXT`; run this again."
    ),
    DriveEnding.WAITS_FOR_APPROVAL: "When it is merged, run this again for the next pull request.",
    DriveEnding.HALTED: "When that is done, `aop gated reset` begins again.",
    DriveEnding.NOT_REVIEWED: "See to the reviewer (`gated` of the policy), and run this again.",
    DriveEnding.NO_PROGRESS: "See what the agent says with `aop logs --agent NAME`.",
    DriveEnding.TURNS_USED_UP: "Run this again to go on, or allow more with `--max-turns`.",
    DriveEnding.TIME_IS_UP: "Run this again to go on, or allow more with `--max-minutes`.",
    DriveEnding.COST_CAP: "Raise the cap in `cost` of the policy, and run this again.",
}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Start the workflow if there is none, and drive the agent."""
    if arguments.max_turns < 1 or not 0 < arguments.max_minutes <= 10_000:
        raise InvalidCliArgs("`--max-turns` is at least 1, and `--max-minutes` more than 0 and at most 10000.")
    with open_app(arguments) as app, _alone(app, arguments.name):
        return _driven(app, arguments, terminal)


def _alone(app: App, name: str) -> AbstractContextManager[int]:
    busy = AgentAtWork(f"An agent is being driven through the workflow `{name}` already.", feature_id=name)
    return locked_file(app.root / ".aop" / "locks" / f"gated-{name}.lock", wait_seconds=0.0, refusal=busy)


def _driven(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    settings = app.settings
    wish = ProviderPreference(
        provider=arguments.agent_provider, model=arguments.agent_model, config_env=arguments.provider_config_env
    )
    runtime = app.gateway.kernel.config().agents.runtime
    choice = provider_choice(Role.SWE, wish, ProviderPreference.from_env(settings.environ), runtime)
    # What is missing is said before anything is changed.
    gated_agent(app, settings, choice)
    refuse_without_plan(app.gateway.kernel, arguments.name, arguments.plan)
    began = time.monotonic()

    def tell(line: str) -> None:
        terminal.say(f"{time.monotonic() - began:7.2f} s  {arguments.name}: {line}")

    told = ToldGateway(app.gateway, tell)
    started = told.call(app.person, "gated.start", {"feature_id": arguments.name, "master_plan": arguments.plan})
    if started.error is not None:
        raise CallRefused(started.error, started.evidence)
    if started.data["plan_problem"]:
        terminal.say(started.data["plan_problem"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end_orphans(app.root)
    make_ready_for_threads()
    allowed = DriveLimits(turns=arguments.max_turns, seconds=arguments.max_minutes * 60)
    served = msgspec.structs.replace(app, gateway=told)
    with open_door(served, settings, dict.fromkeys(ROLES, choice), terminal.say) as mcp_url:
        agent = gated_agent(served, settings, choice, mcp_url)
        ended = Drive(told, FeatureId(arguments.name), agent, allowed, tell).to_the_end()
    return _shown(app, arguments.name, ended, time.monotonic() - began, terminal)


class ToldGateway(Gateway):
    """Tells of each call that the agent makes, whichever way it comes in."""

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
        """Take one call, and tell what came of it."""
        answer = super().call(principal, tool_name, arguments, operation_id=operation_id, report=report)
        if principal.role is Role.SWE:
            self._tell(f"{tool_name}: {_gist(tool_name, arguments, answer)}")
        return answer


def _gist(tool: str, arguments: Json, answer: Envelope) -> str:
    if answer.error is not None:
        return f"refused, {answer.error['code']}"
    data: Mapping[str, Any] = answer.data
    if "status" in data:
        goal = str(data.get("task") or data.get("output") or "").partition("\n")[0].strip()
        return f"{data['status']}: {goal[:120]}" if goal else str(data["status"])
    where = arguments.get("file_path") or arguments.get("path") if isinstance(arguments, Mapping) else ""
    return f"{where or 'done'}{': not applied' if data.get('success') is False else ''}"


def _shown(app: App, name: str, ended: DriveEnded, seconds: float, terminal: Terminal) -> int:
    code = exit_of(str(ended.error["code"])) if ended.error is not None else EXITS[ended.ending]
    facts = app.gateway.call(app.person, "gated.status", {}).data["workflows"]
    workflow = next((each for each in facts if each["feature_id"] == name), None)
    if terminal.json:
        error = {} if ended.error is None else {"error": ended.error}
        told: dict[str, Json] = {
            "ending": ended.ending,
            "message": ended.message,
            "turns": ended.turns,
            "seconds": round(seconds, 2),
        }
        terminal.object({"ok": code is Exit.OK, "data": {**told, "workflow": workflow}, **error})
    elif ended.error is not None:
        return terminal.refuse(ended.error, {})
    else:
        terminal.text(f"{ended.ending}: {ended.message}")
        if ended.ending in HINTS:
            terminal.say(f"  {HINTS[ended.ending]}")
    return code
