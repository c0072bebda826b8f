"""`aop platform`: the queues for workers of other machines, and what is in them."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from aop.adapters.machine.agent_signs import sign_of_agent
from aop.cli.shell.terminal import Terminal
from aop.core.errors import Json, PersonRequired

if TYPE_CHECKING:  # imported with the driver of the database, by those who have one
    from aop.adapters.fleet.platform import Platform


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("init", "status"), nargs="?", default="status", help="default: status")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the platform, or show it."""
    from aop.adapters.fleet.connections import platform_address, shown_address
    from aop.adapters.fleet.platform import Platform

    sign = sign_of_agent(os.environ)
    if arguments.action == "init" and sign:
        raise PersonRequired(f"`aop platform init` is for a person, and {sign}.", sign=sign)
    url = platform_address(os.environ)
    with Platform(url) as platform:
        if arguments.action == "init":
            changed = platform.make()
            where = shown_address(url)
            done = f"Workers can take gates from {where}. Start one with: aop worker --queues gates"
            return terminal.done({"where": where, "changed": changed}, done)
        platform.check()
        return _show(platform, terminal)


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
    lines += [f"{each.name}: {_features_text(each.features)}" for each in repositories]
    return terminal.result(data, "\n".join(lines))


def _features_text(features: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in sorted(features.items())) or "no feature"
