"""ACP commands: the row of a user's own ACP command, known by its program name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from aop.adapters.agents.vendors.catalogue import Vendor

_STARTERS = ("node", "npx", "bunx", "python")
"""Launchers: the program is the next word."""
_RENAMED = {"claude-code-acp": "claude-agent-acp"}
"""Earlier names of programs."""


def metered_vendor(argv: Sequence[str], environ: Mapping[str, str], vendors: Mapping[str, Vendor]) -> Vendor | None:
    """Return the agent that a command starts, for its meter; None if it is unknown, or has no key or no endpoint."""
    names = [PurePosixPath(word).name.partition("@")[0] for word in argv if not word.startswith("-")]
    is_started = len(names) > 1 and names[0].startswith(_STARTERS)
    word = (names[1] if is_started else names[0]) if names else ""
    program = _RENAMED.get(word, word)
    found = next((each for each in vendors.values() if each.speaks_acp and program in _names(each)), None)
    if found is None or found.row.endpoint is None:
        return None
    return found if environ.get(found.row.key_variable or "", "").strip() else None


def _names(vendor: Vendor) -> tuple[str, ...]:
    """Return the names that a command may have for an agent: its program, or the package that a launcher fetches."""
    package = vendor.row.package
    return (vendor.program, *([PurePosixPath(package.name).name] if package else []))
