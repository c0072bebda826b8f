"""`aop gated run`: drive an agent through the plan until done or blocked."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Mapping

from aop.cli.run.supervision.arguments import preference_of
from aop.cli.shell.exits import Exit
from aop.cli.shell.mcp_server import serve_mcp
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.gated.driver import DriveEnded, DriveEnding, DriveLimits
from aop.wiring.build import App
from aop.wiring.gated_drive import DriveCallbacks, choose_agent, drive_agent, exclusive_drive

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
    DriveEnding.QUOTA_REACHED: Exit.TRY_AGAIN,
}
HINTS: Mapping[DriveEnding, str] = {
    DriveEnding.ESCALATED: (
        "Read its report with `aop inbox`. Answer with `aop gated resume --guidance TEXT`, then run this again."
    ),
    DriveEnding.WAITS_FOR_APPROVAL: "After the merge, run this again for the next pull request.",
    DriveEnding.HALTED: "After that, start over with `aop gated reset`.",
    DriveEnding.NOT_REVIEWED: "Repair the reviewer's settings (`gated` in the policy), then run this again.",
    DriveEnding.NO_PROGRESS: "Read the agent's log with `aop logs --agent NAME`.",
    DriveEnding.TURNS_USED_UP: "Run this again to continue, or allow more with `--max-turns`.",
    DriveEnding.TIME_IS_UP: "Run this again to continue, or allow more with `--max-minutes`.",
    DriveEnding.COST_CAP: "Raise the cap in `cost` of the policy, then run this again.",
    DriveEnding.QUOTA_REACHED: (
        "Run this again after that time. If none is named, look at the account: it may have no credit."
    ),
}


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Start the workflow if there is none, and drive the agent."""
    if arguments.max_turns < 1 or not 0 < arguments.max_minutes <= 10_000:
        raise InvalidCliArgs("`--max-turns` must be at least 1, and `--max-minutes` more than 0 and at most 10000.")
    with open_app(arguments, asks_models=True) as app, exclusive_drive(app, arguments.name):
        return _drive(app, arguments, terminal)


def _drive(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    choice = choose_agent(app, preference_of(arguments), arguments.name, arguments.plan)
    began = time.monotonic()

    def tell(line: str) -> None:
        terminal.say(f"{time.monotonic() - began:7.2f} s  {arguments.name}: {' '.join(line.split())}")

    started = call_tool(app, "gated.start", {"feature_id": arguments.name, "master_plan": arguments.plan})
    if started.data["plan_problem"]:
        terminal.say(started.data["plan_problem"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limits = DriveLimits(turns=arguments.max_turns, seconds=arguments.max_minutes * 60)
    callbacks = DriveCallbacks(tell=tell, log=terminal.say, serve_mcp=serve_mcp)
    ended = drive_agent(app, FeatureId(arguments.name), choice, limits, callbacks)
    return _report_end(app, arguments.name, ended, time.monotonic() - began, terminal)


def _report_end(app: App, name: str, ended: DriveEnded, seconds: float, terminal: Terminal) -> int:
    workflows = app.gateway.call(app.person, "gated.status", {}).data["workflows"]
    workflow = next((each for each in workflows if each["feature_id"] == name), None)
    facts: dict[str, Json] = {
        "ending": ended.ending,
        "message": ended.message,
        "turns": ended.turns,
        "seconds": round(seconds, 2),
        "workflow": workflow,
    }
    if ended.error is not None:
        return terminal.refuse(ended.error, facts)
    told = visible(" ".join(ended.message.split()))
    code = terminal.result(facts, f"{ended.ending}: {told}", code=EXITS[ended.ending])
    if ended.ending in HINTS and not terminal.json:
        terminal.say(f"  {HINTS[ended.ending]}")
    return code
