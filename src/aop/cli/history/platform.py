"""`aop platform`: the queues for workers of other machines, and all repositories."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aop.adapters.machine.agent_signs import sign_of_agent
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, Json, PersonRequired

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.adapters.fleet.platform import Platform, RepositoryRow

ACTIONS = ("init", "add", "remove", "status")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="status", help="default: status")
    parser.add_argument("subject", nargs="?", metavar="URL|NAME", help="add: the hub; remove: the repository's name")
    parser.add_argument("--name", metavar="NAME", help="add: the repository's name (default: from the address)")
    parser.add_argument("--force", action="store_true", help="remove: even if it is led or has unfinished features")
    parser.add_argument(
        "--projects", default="", metavar="KEYS", help="init: projects with a queue of their own for tickets, by commas"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the platform, change its list of repositories, or show it."""
    from aop.adapters.fleet.connections import platform_address, shown_address
    from aop.adapters.fleet.platform import Platform

    action, sign = arguments.action, sign_of_agent(os.environ)
    if action != "status" and sign:
        raise PersonRequired(f"`aop platform {action}` is for a person, and {sign}.", sign=sign)
    if action in ("add", "remove") and not arguments.subject:
        what = "the address of a hub" if action == "add" else "the name of a repository"
        raise InvalidCliArgs(f"`aop platform {action}` needs {what}.")
    url = platform_address(os.environ)
    with Platform(url) as platform:
        if action == "init":
            return _make(platform, _projects(arguments.projects), shown_address(url), terminal)
        platform.check()
        if action == "add":
            return _add(platform, arguments, terminal)
        if action == "remove":
            return _remove(platform, arguments, terminal)
        return _show(platform, terminal)


def _make(platform: Platform, projects: list[str], where: str, terminal: Terminal) -> int:
    from aop.adapters.fleet.platform_shape import project_queue

    changed = platform.make(projects)
    what, queues = ("tickets", map(project_queue, projects)) if projects else ("gates", ["gates"])
    done = f"Workers can take {what} from {where}. Start one with: aop worker --queues {','.join(queues)}"
    return terminal.done({"where": where, "changed": changed}, done)


def _projects(text: str) -> list[str]:
    """Return the projects that an argument names. Raises: InvalidCliArgs."""
    from aop.tickets.mission.keys import is_project_key

    projects = [name.strip() for name in text.split(",") if name.strip()]
    for name in projects:
        if not is_project_key(name):
            raise InvalidCliArgs(f"{name[:100]!a} is not the key of a project such as `SHOP`.")
    return projects


def _add(platform: Platform, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.fleet.leads.directory import Directory, name_in
    from aop.adapters.git.refs.hub import checked_address, default_branch

    hub = checked_address(arguments.subject, "The address")
    branch = default_branch(hub, os.environ, Path.cwd())
    name = arguments.name or name_in(hub)
    added = Directory(platform.connection).add(name, hub)
    data: Json = {"name": name, "hub": hub, "branch": branch, "added": added}
    return terminal.done(data, f"`{name}` is on the platform{'' if added else ' already'}: {hub} ({branch})")


def _remove(platform: Platform, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.adapters.fleet.leads.directory import Directory

    Directory(platform.connection).remove(arguments.subject, force=arguments.force)
    return terminal.done({"name": arguments.subject}, f"Removed `{arguments.subject}`. Its record is kept.")


def _show(platform: Platform, terminal: Terminal) -> int:
    queues = platform.queues()
    states = Counter("gone" if worker.state == "gone" else "live" for worker in platform.workers())
    repositories = platform.repositories()
    data: Json = {
        "repositories": [msgspec.to_builtins(each) for each in repositories],
        "queues": [msgspec.to_builtins(each) for each in queues],
        "workers": {"live": states["live"], "gone": states["gone"]},
    }
    lines = [
        f"{queue.name}: {queue.waiting} waiting (oldest {queue.oldest_seconds:.1f} s), {queue.running} running"
        for queue in queues
    ]
    lines.append(f"workers: {states['live']} live, {states['gone']} gone")
    lines += [f"{each.name}: {_features_text(each.features)}{_led_text(each)}" for each in repositories]
    return terminal.result(data, "\n".join(lines))


def _features_text(features: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(features.items())) or "no feature"


def _led_text(repository: RepositoryRow) -> str:
    return f"; led by {repository.leader}" if repository.leader else ""
