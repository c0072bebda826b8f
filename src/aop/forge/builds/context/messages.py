"""Messages of a build: its first one, the start of a phase, a reminder to read.

No contract and no phase is in them: the model fetches both when it needs them (FORGE-063, FORGE-066).
"""

from __future__ import annotations

from collections.abc import Sequence

from aop.brains.conversation import Reply, Turn
from aop.brains.prompts import Data, Prompt, build_prompt, data_block
from aop.core.roles import Role
from aop.core.text.visible import visible
from aop.forge.broker.role_briefs import role_prompt
from aop.forge.builds.context.listings import change_listing, workspace_listing
from aop.kernel.ports.git import TreeChange

LONGEST_DESCRIPTION = 400
LONGEST_NOTES = 4_000
FETCHES = "forge_get_"


def first_prompt(
    name: str,
    description: str,
    paths: Sequence[str],
    *,
    fence: str,
    notes: str = "",
    questions: str = "",
    role: str = "forge_builder",
) -> Prompt:
    """Return what a builder is sent at first; `questions` tells how many it may ask."""
    parts = [f"# Project: {visible(name)}", visible(description)[:LONGEST_DESCRIPTION]]
    parts += [notes[:LONGEST_NOTES].strip()] if notes else []
    parts.append(f"## Files\n{data_block(_files(paths), fence)}")
    parts += [questions] if questions else []
    parts.append("Begin phase 0. Call `forge_get_phase_window(0)` and fetch `blueprint` and `stack` in the same reply.")
    return build_prompt(role_prompt(role), "\n\n".join(parts), (), fence)


def advancement(
    phase: int, changes: Sequence[TreeChange], paths: Sequence[str], *, fence: str, questions: str = ""
) -> str:
    """Return the message that begins a phase after the one before was signed off."""
    changed = Data(source="what the last phase changed", text=change_listing(changes))
    return "\n\n".join(
        [
            f"## Phase {phase} — START",
            f"Phase {phase - 1} is signed off.",
            data_block(changed, fence),
            data_block(_files(paths), fence),
            *([questions] if questions else []),
            f"Call `forge_get_phase_window({phase})`, fetch the contracts that the phase needs, and write its plan.",
        ]
    )


def must_read(turns: Sequence[Turn], phase: int, role: Role = Role.FORGE_BUILDER) -> str | None:
    """Return the reminder for a model whose first reply read no contract; None if it read one (FORGE-070, FORGE-113).

    The fixer may need none: its findings name what to read.
    """
    if role is Role.FIXER:
        return None
    replies = [turn for turn in turns if isinstance(turn, Reply)]
    if len(replies) != 1 or any(call.name.startswith(FETCHES) for call in replies[0].calls):
        return None
    return must_read_text(phase, role)


def must_read_text(phase: int, role: Role) -> str:
    """Return the words that remind a role of the contracts."""
    if role is Role.AUDITOR:
        return "You must fetch the contracts with forge_get_project_contract before you report."
    return f"You must call forge_get_phase_window({phase}) before {'you report' if role is Role.SCOUT else 'coding'}."


def _files(paths: Sequence[str]) -> Data:
    return Data(source="the files of the workspace", text=workspace_listing(paths))
