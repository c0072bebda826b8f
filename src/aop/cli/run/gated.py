"""`aop gated`: run, start, show, answer or reset the workflow of one agent."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.core.text.visible import visible_lines
from aop.kernel.gateway.calls import Envelope
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        choices=["run", *ACTIONS],
        help="`run`: drive an agent until all is done or a person is needed; `start`: start by hand;"
        " `status`: show the workflows; `resume`: answer a request for help; `reset`: start over at the base branch",
    )
    parser.add_argument("--name", default="gated", metavar="ID", help="the workflow (default: gated)")
    parser.add_argument(
        "--plan", metavar="PATH", help="start, run: the plan of all pull requests (default: from the policy)"
    )
    parser.add_argument("--guidance", metavar="TEXT", help="resume: the answer for the agent")
    driving_arguments(parser)


def driving_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.add_argument("--agent-provider", metavar="P", help="run: the coding agent")
    parser.add_argument("--agent-model", metavar="M", help="run: the model that it uses")
    parser.add_argument("--provider-config-env", metavar="V", help="run: the variable with the provider's settings")
    parser.add_argument("--max-turns", type=int, default=100, metavar="N", help="run: turn limit (default: 100)")
    parser.add_argument("--max-minutes", type=float, default=480, metavar="N", help="run: time limit (default: 480)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Carry out the action, and name the next command."""
    if arguments.action == "run":
        from aop.cli.run import gated_run

        return gated_run.run(arguments, terminal)
    with open_app(arguments) as app:
        answer = ACTIONS[arguments.action](app, arguments)
    return terminal.answer(answer, lambda data: _show(data, arguments, terminal))


def _show(data: Mapping[str, Any], arguments: argparse.Namespace, terminal: Terminal) -> None:
    terminal.text(visible_lines(SAY[arguments.action](data)))
    if arguments.action == "start":
        _warn_of_plan(arguments.plan, data, terminal)


def _start(app: App, arguments: argparse.Namespace) -> Envelope:
    return call_tool(app, "gated.start", {"feature_id": arguments.name, "master_plan": arguments.plan})


def _status(app: App, _arguments: argparse.Namespace) -> Envelope:
    return call_tool(app, "gated.status", {})


def _resume(app: App, arguments: argparse.Namespace) -> Envelope:
    """Answer the agent's request for help."""
    if not arguments.guidance:
        raise InvalidCliArgs("The answer for the agent is missing.", hint="Give it with `--guidance TEXT`.")
    return call_tool(app, "gated.resume", {"feature_id": arguments.name, "guidance": arguments.guidance})


def _reset(app: App, arguments: argparse.Namespace) -> Envelope:
    return call_tool(app, "gated.reset", {"feature_id": arguments.name})


def _say_started(data: Mapping[str, Any]) -> str:
    name, left = data["feature_id"], data["pull_requests_left"]
    return (
        f"The workflow `{name}` is {data['status']}, in {data['worktree_path']}.\n"
        + (f"Open in `{data['master_plan']}`: {'; '.join(left)}.\n" if left else "")
        + f"Connect an agent: `aop token swe --feature {name}`, and `aop mcp` with that token;"
        " or, with only a shell, `aop call get_task`."
    )


def _warn_of_plan(wanted: str | None, data: Mapping[str, Any], terminal: Terminal) -> None:
    """Warn if the plan is missing, or is another one than the arguments name."""
    plan, name = data["master_plan"], data["feature_id"]
    if wanted is not None and not data["created"] and wanted != plan:
        terminal.say(f"`{name}` already exists and works on `{plan}`; for `{wanted}`, choose another `--name`.")
    if data["plan_problem"]:
        terminal.say(f"{data['plan_problem']} Commit it, then run `aop gated start --name {name}` again.")


def _say_status(data: Mapping[str, Any]) -> str:
    rows = [_one_line(each) for each in data["workflows"]]
    return "\n".join(rows) or "There is no workflow. Start one with `aop gated start`."


def _one_line(each: Mapping[str, Any]) -> str:
    said = [f"{each['feature_id']}: {each['status']}", each["pr_title"] or "no pull request yet"]
    if each["debug_attempt_counter"]:
        said.append(count(each["debug_attempt_counter"], "failed attempt"))
    if each["escalated"]:
        said.append(f"waits for an answer: `aop gated resume --name {each['feature_id']} --guidance TEXT`")
    if each["halt_reason"]:
        said.append(each["halt_reason"])
    return ", ".join(said)


ACTIONS: Mapping[str, Callable[[App, argparse.Namespace], Envelope]] = {
    "start": _start,
    "status": _status,
    "resume": _resume,
    "reset": _reset,
}
SAY: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "start": _say_started,
    "status": _say_status,
    "resume": lambda _data: "Answered. The agent continues with its next `get_task`.",
    "reset": lambda data: f"The workflow `{data['feature_id']}` starts over; its branch, if it had one, stays.",
}
