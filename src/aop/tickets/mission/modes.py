"""The two ways of working on a ticket, and the one function for each agent that chooses between them."""

from __future__ import annotations

from enum import StrEnum


class TicketMode(StrEnum):
    """Who decides what comes next: Python, or a model between Python's limits."""

    LINEAR_DETERMINISTIC = "LINEAR_DETERMINISTIC"
    AGENTIC_ACT_LOOP = "AGENTIC_ACT_LOOP"


def scaffolding_mode(
    *, marked_agentic: bool, exploratory: bool, failed_before: bool, recovery_enabled: bool
) -> TicketMode:
    """Choose how to scaffold; linear unless the mission says otherwise or a linear run is to be healed."""
    agentic = marked_agentic or exploratory or (failed_before and recovery_enabled)
    return TicketMode.AGENTIC_ACT_LOOP if agentic else TicketMode.LINEAR_DETERMINISTIC


def review_mode(
    *, marked_agentic: bool, diff_chars: int, max_diff_chars: int, failed_before: bool, recovery_enabled: bool
) -> TicketMode:
    """Choose how to review; linear unless marked, too large for one question, or to be healed."""
    agentic = marked_agentic or diff_chars > max_diff_chars or (failed_before and recovery_enabled)
    return TicketMode.AGENTIC_ACT_LOOP if agentic else TicketMode.LINEAR_DETERMINISTIC
