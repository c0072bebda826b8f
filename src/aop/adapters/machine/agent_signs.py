"""Agent signs: variables that show that an agent is at a terminal, not a person.

A process cannot change the variables that its ancestors were started with, so unsetting one is not enough. An agent
that can start a process apart from itself, with a shell of the same user, leaves no sign.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

SIGNS = {"AOP_TOKEN": "the token of an agent", "AOP_STEP_ID": "the mark of what AOP started"}
LONGEST_LINE = 64
"""How many ancestors are looked at."""


def sign_of_agent(environ: Mapping[str, str], processes: Path = Path("/proc")) -> str:
    """Return the sign that this process works for an agent, as words for a person; empty if there is none."""
    for name, meaning in SIGNS.items():
        if environ.get(name):
            return f"`{name}` is set ({meaning})"
    for ancestor in _ancestors(processes):
        for name, meaning in SIGNS.items():
            if name in _variables(processes / ancestor / "environ"):
                return f"the process {ancestor} above it has `{name}` ({meaning})"
    return ""


def _ancestors(processes: Path) -> Iterator[str]:
    process = "self"
    for _ in range(LONGEST_LINE):
        try:
            # The name of a program stands in parentheses, and may hold any character.
            parent = (processes / process / "stat").read_bytes().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            return
        if parent == "0":
            return
        yield parent
        process = parent


def _variables(file: Path) -> set[str]:
    try:
        lines = os.fsdecode(file.read_bytes()).split("\0")
    except OSError:
        return set()
    return {name for name, _, value in (line.partition("=") for line in lines) if value}
