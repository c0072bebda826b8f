"""Tool `gates.list`: the gate profiles that are in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.kernel.gates.reports.coverage import PARSERS
from aop.kernel.gates.steps import profile_named
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS


class ListGatesArguments(Arguments, frozen=True, kw_only=True):
    profile: str | None = None


class GateList(Struct, frozen=True, kw_only=True):
    profiles: Mapping[str, Any]
    capabilities: tuple[str, ...]
    required_modes: tuple[str, ...]
    required_merge_mode: str
    sources: Mapping[str, str]
    warnings: tuple[str, ...]


def list_gates(call: Call, arguments: ListGatesArguments) -> Outcome:
    """Return the gate profiles that are in force."""
    config = call.kernel.config()
    profiles = config.gates.profiles
    if arguments.profile is not None:
        profiles = {arguments.profile: profile_named(config.gates, arguments.profile)}
    return GateList(
        profiles=msgspec.to_builtins(profiles),
        capabilities=tuple(sorted(PARSERS)),
        required_modes=config.policy.required_modes,
        required_merge_mode=config.policy.required_merge_mode,
        sources=dict(config.sources),
        warnings=config.warnings,
    )


TOOLS = (
    Tool(
        name="gates.list",
        summary="Return the gate profiles, their modes and steps, and where they were read from.",
        arguments=ListGatesArguments,
        output=GateList,
        roles=READERS,
        run=list_gates,
    ),
)
