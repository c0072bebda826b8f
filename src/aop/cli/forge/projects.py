"""Projects at the terminal: `aop forge new`, `list` and `show`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from aop.cli.forge.action import Action, declare_nothing, declare_project
from aop.cli.forge.rows import lines_of, print_text
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.forge.contracts.types import CONTRACT_TYPES
from aop.forge.projects.questionnaire import sections_for


def _declare_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name; the id is made of the words")
    parser.add_argument("--mini", action="store_true", help="a small project: three sections of questions, two phases")


def new(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Begin a project, and name the next command."""
    request = {"name": arguments.name, "mode": "mini" if arguments.mini else "full"}
    with open_app(arguments) as app:
        answer = call_tool(app, "forge.project_new", request)
    return terminal.answer(answer, lambda data: _show_new(data["project_id"], terminal))


def _show_new(project: str, terminal: Terminal) -> None:
    terminal.text(project)
    terminal.say(f"Answer its questions with: aop forge ask {project}")
    terminal.say(f"For a repository that exists already: aop forge scan {project}")


def list_projects(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List the projects."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.project_list", {})
    return terminal.answer(answer, lambda data: _show_list(data["projects"], terminal))


def _show_list(projects: list[Mapping[str, Any]], terminal: Terminal) -> None:
    if not projects:
        return terminal.say("No projects yet. Begin one with: aop forge new NAME")
    rows = [
        (each["project_id"], each["status"], each["mode"], str(each["batch"] or "-"), each["name"]) for each in projects
    ]
    return terminal.text("\n".join(lines_of(("Project", "Status", "Mode", "Batch", "Name"), rows, terminal)))


def _declare_show(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    names = [each.value for each in CONTRACT_TYPES]
    parser.add_argument(
        "contract_type", metavar="TYPE", nargs="?", choices=names, help="print this contract: " + ", ".join(names)
    )
    parser.add_argument("--version", metavar="N", type=int, help="this version of the contract (default: the newest)")


def show(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show one project, or one of its contracts."""
    if arguments.contract_type is not None:
        return _show_contract(arguments, terminal)
    if arguments.version is not None:
        raise InvalidCliArgs(
            "`--version` needs a contract.", hint="Name it: `aop forge show PROJECT TYPE --version N`."
        )
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.project_show", {"project_id": arguments.project})
    return terminal.answer(answer, lambda data: terminal.text("\n".join(_project_lines(data, terminal))))


def _show_contract(arguments: argparse.Namespace, terminal: Terminal) -> int:
    which = {"project_id": arguments.project, "contract_type": arguments.contract_type}
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "forge.contract_show", {**which, "number": arguments.version})
    return terminal.answer(answer, lambda data: print_text(data["content"], terminal))


def _project_lines(data: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield f"{data['project_id']}: {visible(data['name'])}"
    yield f"Status: {data['status']} ({data['mode']}, {data['flow']})"
    yield f"Answered: {', '.join(data['answered']) or 'nothing yet'}"
    if data["scan_run"]:
        yield f"Scan: {data['scan_run']} ({'with' if data['is_planned'] else 'no'} renovation plan)"
    if not data["contracts"]:
        yield f"Contracts: none yet. {_next_step(data)}"
        return
    yield f"Contracts: batch {data['batch']}, {data['sha256']}"
    rows = [
        (
            each["contract_type"],
            str(each["version"]),
            each["sha256"][:12],
            each["author"],
            each["updated_at"][:19] + "Z",
        )
        for each in data["contracts"]
    ]
    yield from lines_of(("Contract", "Version", "SHA-256", "Author", "Stored"), rows, terminal)
    yield f"Contradictions: {len(data['contradictions']) or 'none'}"
    yield from (f"  {each['severity']}: {visible(each['description'])}" for each in data["contradictions"])
    if data["builds"]:
        builds = [(each["build_id"], str(each["batch"]), each["pinned_at"]) for each in data["builds"]]
        yield from lines_of(("Build", "Batch", "Pinned"), builds, terminal)
    else:
        yield f"Pin them for a build with: aop forge pin {data['project_id']}"


def _next_step(data: Mapping[str, Any]) -> str:
    project = data["project_id"]
    generate = f"aop forge generate {project}"
    if data["scan_run"]:
        if data["is_planned"]:
            return f"Generate them with: {generate}"
        return f"Plan the renovation with: aop forge plan {project}; then: {generate}"
    if not data["answered"]:
        return f"Answer its questions with: aop forge ask {project}; or read a repository: aop forge scan {project}"
    if len(data["answered"]) < len(sections_for(data["mode"])):
        return f"Answer the other questions with: aop forge ask {project}; then: {generate}"
    return f"Generate them with: {generate}"


def _declare_delete(parser: argparse.ArgumentParser) -> None:
    declare_project(parser)
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument(
        "--abandon-builds",
        action="store_true",
        help="delete also builds that pinned its contracts and have not begun; their agents can read nothing more",
    )


def delete(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show what a deletion removes, ask for the project by name, delete it."""
    request = {"project_id": arguments.project, "abandon_builds": arguments.abandon_builds}
    with open_app(arguments) as app:
        planned = call_tool(app, "forge.project_delete", request)
        if terminal.json and not arguments.yes:
            return terminal.answer(planned, lambda _planned: None, code=Exit.NOT_PROVEN)
        if not arguments.yes and not _is_wanted(planned.data, terminal):
            terminal.say("Not deleted. Nothing changed.")
            return Exit.NOT_PROVEN
        from aop.wiring.forge.generation import generations_ended

        with generations_ended(app, planned.data["project_id"]):
            seen = {"dry_run": False, "expected_version": planned.data["version"]}
            done = call_tool(app, "forge.project_delete", {**request, **seen})
    return terminal.answer(done, lambda data: terminal.say(f"Deleted {data['project_id']}. Its history: aop logs"))


def _is_wanted(planned: Mapping[str, Any], terminal: Terminal) -> bool:
    """Ask for the id of the project, which is not typed by mistake. Raises: InvalidCliArgs without a terminal."""
    project = planned["project_id"]
    if not terminal.is_interactive:
        raise InvalidCliArgs("There is no terminal to ask on.", hint="Pass `--yes` to delete it without a question.")
    versions, batches = count(planned["contracts"], "contract version"), count(planned["batches"], "batch")
    terminal.say(f"Project  {project}: {visible(planned['name'])}")
    terminal.say(f"Removes  its answers, {count(planned['scans'], 'scan')}, {versions} in {batches}")
    terminal.say(f"Builds   {', '.join(planned['builds']) or 'none'}")
    return bool(terminal.ask(f"This cannot be undone. Type `{project}` to delete it: ") == project)


ACTIONS: Mapping[str, Action] = {
    "new": Action(_declare_new, new),
    "list": Action(declare_nothing, list_projects),
    "show": Action(_declare_show, show),
    "delete": Action(_declare_delete, delete),
}
