"""Scans at the terminal: `aop forge scan`, `plan` and `map`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from aop.cli.forge.action import Action, declare_project
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count
from aop.core.text.visible import visible

MOST_PLACES = 3


def _declare_scan(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument("--ref", default="HEAD", help="a branch, a tag or a commit (default: HEAD)")


def scan(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Read a commit, and show the checks."""
    request = {"project_id": arguments.project, "ref": arguments.ref}
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.scan", request, report=terminal.say)
    return terminal.answer(answer, lambda data: terminal.text("\n".join(_scan_lines(data, terminal))))


def _scan_lines(data: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield f"{data['run_id']}: commit {data['head_sha'][:12]}, grade {data['health_grade']}, {data['score']} of 100"
    yield visible(data["summary"])
    rows = [
        (
            check["code"],
            check["result"],
            " ".join([f"{check['name']}:", check["detail"], *check["places"][:MOST_PLACES]]),
        )
        for check in data["checks"]
    ]
    yield from lines_of(("Check", "Result", "Finding"), rows, terminal)
    yield from (f"Unknown: {visible(each)}" for each in data["unknown"])
    if data["warnings"]:
        yield f"{count(data['warnings'], 'warning')}. Read them with: aop forge map {data['project_id']} --json"
    yield f"Plan the renovation with: aop forge plan {data['project_id']}"


def _declare_map(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument("path", metavar="PATH", nargs="?", default="", help="a folder, to show it with its files")


def show_map(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show the map of the newest scan."""
    request = {"project_id": arguments.project, "path": arguments.path}
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.scan_show", request)
    return terminal.answer(answer, lambda data: terminal.text("\n".join(_map_lines(data, terminal))))


def _map_lines(data: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    results = data["results"]
    packages = results["architecture"]["packages"]
    yield f"{data['run_id']}: commit {data['head_sha'][:12]}, {count(len(packages), 'package')}"
    rows = []
    for each in packages:
        figures = [str(each[name]) for name in ("layer", "lines", "functions", "classes")]
        rows.append((each["path"], *figures, " ".join(each["imports"])))
        rows += [
            (f"  {part['name']}", "", *(str(part[name]) for name in ("lines", "functions", "classes")), "")
            for part in each["modules"]
        ]
    yield from lines_of(("Package", "Layer", "Lines", "Functions", "Classes", "Imports"), rows, terminal)
    for cycle in results["architecture"]["cycles"]:
        yield f"Cycle of {count(cycle['files'], 'file')}: {visible(' -> '.join(cycle['path']))}"


def _declare_plan(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument(
        "--online", action="store_true", help="ask the registries of pip, npm, cargo and go for the newest versions"
    )


def plan(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the renovation plan, and show its tasks."""
    request = {"project_id": arguments.project, "online": arguments.online}
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.plan", request, report=terminal.say)
    return terminal.answer(answer, lambda data: terminal.text("\n".join(_plan_lines(data, terminal))))


def _plan_lines(data: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    brief = data["executive_brief"]
    yield visible(brief["headline"])
    yield visible(brief["risk_summary"])
    tasks = data["migration_recommendations"]
    rows = [
        (each["priority"], each["effort"], f"{each['id']}: {each['from_state']} -> {each['to_state']}")
        for each in tasks
    ]
    yield from lines_of(("Priority", "Effort", "Task"), rows, terminal)
    figures = [f"{len(found)} {status}" for status, found in data["version_report"].items()]
    yield f"Versions: {', '.join(figures)}"
    if not data["online"]:
        yield f"Compare with the newest versions: aop forge plan {data['project_id']} --online"
    yield brief["forge_automation_note"]
    yield f"Generate the contracts with: aop forge generate {data['project_id']}"


ACTIONS: Mapping[str, Action] = {
    "scan": Action(_declare_scan, scan),
    "plan": Action(_declare_plan, plan),
    "map": Action(_declare_map, show_map),
}
