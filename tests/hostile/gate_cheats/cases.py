"""Cases: changes that cheat the gates, and honest twins of them; one row is one case.

A case is a name, the files that a patch writes, and what must come of it: `PASSES`, or a part of the answer that
refuses the patch or fails the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from tests.kernel.tools.worlds import patch_of
from tests.world import World, git

PASSES = ""


class Case(Struct, frozen=True, kw_only=True):
    """One change of the project."""

    name: str
    files: Mapping[str, str | None]
    """The whole content of each file; None removes it."""
    expected: str = PASSES


def apply(world: World, files: Mapping[str, str | None]) -> Envelope:
    """Send the change as the builder."""
    diff = "".join(_file_patch(world, path, text) for path, text in files.items())
    return world.call("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)


def outcome(answer: Envelope) -> str:
    """Return what went wrong, code and message; empty if nothing did."""
    error: Mapping[str, Any] = answer.error or {}
    return f"{error['code']}: {error['message']}" if error else PASSES


def is_expected(answer: Envelope, expected: str) -> bool:
    """Tell whether an answer is what a case expects: nothing went wrong, or exactly this."""
    return expected in outcome(answer) if expected else outcome(answer) == PASSES


def _file_patch(world: World, path: str, text: str | None) -> str:
    shown = git(world.root / ".worktrees/one", "ls-files", "--", path)
    place = world.root / ".worktrees/one" / path
    old = tuple(place.read_text().splitlines()) if shown or place.exists() else ()
    if text is None:
        removed = "".join(f"-{line}\n" for line in old)
        return f"--- a/{path}\n+++ /dev/null\n@@ -1,{len(old)} +0,0 @@\n{removed}"
    return patch_of(path, *text.splitlines(), old=old)
