"""`aop forge status` and `aop forge abandon`: a build and its branch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from aop.cli.forge.action import Action
from aop.cli.forge.builds.audit import declare_build
from aop.cli.forge.rows import lines_of
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count
from aop.core.text.visible import visible

BRANCH_NOTES: Mapping[str, str] = {
    "ahead": "people added commits, which the build takes in before its next step",
    "moved": "it does not have the last commit of the build any longer",
    "gone": "it was deleted",
}


def status(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show a build with its phase, its branch and its newest commits."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.build_status", {"build_id": arguments.build})

    def show(data: Mapping[str, Any]) -> None:
        terminal.text("\n".join([*_facts(data), *_commits(data, terminal)]))

    return terminal.answer(answer, show)


def _facts(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data['build_id']}, {data['status']}, {data['crew']}, batch {data['batch']}"
    if data["reason"]:
        yield f"Reason    {visible(data['reason'])}"
    if data["hold"]:
        yield f"On hold   {data['hold']}: {visible(data['hold_reason'])}"
    if data["pause_ends_at"]:
        yield f"Ends      {data['pause_ends_at']}, unless it is resumed before: aop forge resume {data['build_id']}"
    if data["silence"]:
        yield f"Silent    since {data['alive_at']}. If nothing runs: aop forge build {data['project_id']}"
    if data["phases"]:
        number = min(data["phase"], len(data["phases"]) - 1)
        done = f"{len(data['signed_off'])} of {count(len(data['phases']), 'phase')} signed off"
        yield f"Phase     {number}, {visible(data['phases'][number])}; {done}"
    note = BRANCH_NOTES.get(data["branch_state"], "")
    yield f"Branch    {data['branch']}{f' ({note})' if note else ''}"
    yield f"Baseline  {data['baseline_sha'][:8]}"
    made = f"{data['forge_commit_count']} by AOP"
    yield f"Commits   {count(data['commit_count'], 'commit')} since then, {made}"
    if data["published"]:
        yield f"Pushed    {data['published'][:8]}"
    if data["publish_problem"]:
        yield f"Not pushed: {visible(data['publish_problem'])}"
    yield f"Worktree  {data['worktree_path']}"


def _commits(data: Mapping[str, Any], terminal: Terminal) -> list[str]:
    rows = [[each["sha"][:8], each["made_by"], each["author"], each["subject"]] for each in data["commits"]]
    return ["", *lines_of(("Commit", "By", "Author", "Subject"), rows, terminal)] if rows else []


def _declare_abandon(parser: argparse.ArgumentParser) -> None:
    declare_build(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why it ends, for the record")


def abandon(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """End a build without a seal."""
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.build_abandon", {"build_id": arguments.build, "reason": arguments.reason})

    def show(data: Mapping[str, Any]) -> None:
        terminal.text(f"Abandoned `{data['build_id']}`. Its branch {data['branch']} stays at {data['head'][:8]}.")
        if data["scan_run"]:
            terminal.say(f"Scan again before the next build: aop forge scan {data['project_id']}")

    return terminal.answer(answer, show)


ACTIONS: Mapping[str, Action] = {
    "status": Action(declare_build, status),
    "abandon": Action(_declare_abandon, abandon),
}
