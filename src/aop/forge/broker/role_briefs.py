"""Role briefs: what an agent is told before it asks; no contract is in them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from aop.core.roles import Role

BRIEFED_ROLES = (Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER)


@cache
def role_prompt(name: str) -> str:
    """Return a text of `forge/prompts/roles` by its name."""
    return (files("aop.forge") / "prompts" / "roles" / f"{name}.md").read_text(encoding="utf-8")


def role_brief(role: Role) -> str:
    """Return the brief of a role (FORGE-105)."""
    return role_prompt(role.value)
