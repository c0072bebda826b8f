"""Roles: the closed list of roles that a caller can have (C-27)."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The caller, as the gateway knows it."""

    ORCHESTRATOR = "orchestrator"
    PLANNER = "planner"
    BUILDER = "builder"
    QA = "qa"
    SYSTEM = "system"
    SWE = "swe"
    FORGE_BUILDER = "forge_builder"
    SCOUT = "scout"
    CODER = "coder"
    AUDITOR = "auditor"
    FIXER = "fixer"
