"""Modes of the work on a ticket: fixed steps, or a model with tools."""

from __future__ import annotations

from enum import StrEnum


class TicketMode(StrEnum):
    """The mode: Python decides each step, or a model does within limits."""

    LINEAR_DETERMINISTIC = "LINEAR_DETERMINISTIC"
    AGENTIC_ACT_LOOP = "AGENTIC_ACT_LOOP"


def scaffolding_mode(
    *, marked_agentic: bool, exploratory: bool, failed_before: bool, recovery_enabled: bool
) -> TicketMode:
    """Choose the mode of a scaffold: linear unless the mission is agentic or a failed linear run is recovered."""
    agentic = marked_agentic or exploratory or (failed_before and recovery_enabled)
    return TicketMode.AGENTIC_ACT_LOOP if agentic else TicketMode.LINEAR_DETERMINISTIC


def review_mode(
    *, marked_agentic: bool, diff_chars: int, max_diff_chars: int, failed_before: bool, recovery_enabled: bool
) -> TicketMode:
    """Choose the mode of a review: linear unless marked, too large for one question, or a recovery."""
    agentic = marked_agentic or diff_chars > max_diff_chars or (failed_before and recovery_enabled)
    return TicketMode.AGENTIC_ACT_LOOP if agentic else TicketMode.LINEAR_DETERMINISTIC
