"""Role sets: the default role matrix that tools name (AOP-153..159 with C-21)."""

from __future__ import annotations

from aop.core.roles import Role

SYSTEM = frozenset({Role.SYSTEM})
READERS = frozenset({Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA, Role.SYSTEM})
COORDINATORS = frozenset({Role.ORCHESTRATOR, Role.SYSTEM})
PLANNERS = frozenset({Role.ORCHESTRATOR, Role.PLANNER, Role.SYSTEM})
WORKERS = frozenset({Role.PLANNER, Role.BUILDER, Role.QA, Role.SYSTEM})
PATCHERS = frozenset({Role.BUILDER, Role.QA, Role.SYSTEM})
GATE_RUNNERS = frozenset({Role.ORCHESTRATOR, Role.BUILDER, Role.QA, Role.SYSTEM})
TESTERS = frozenset({Role.ORCHESTRATOR, Role.QA, Role.SYSTEM})
