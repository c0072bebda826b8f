"""Configuration in force: policy, gates and agents, with their hash."""

import msgspec
from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.text.json import canonical_json
from aop.kernel.config.agents import Agents
from aop.kernel.config.gates import Gates
from aop.kernel.config.policy import Policy


class Config(Struct, frozen=True, kw_only=True):
    """The configuration in force."""

    policy: Policy
    gates: Gates
    agents: Agents
    hash: str
    """SHA-256 over the canonical JSON of the three, defaults included: it stands in every verdict."""
    sources: tuple[tuple[str, str], ...]
    """The source of each file, such as `("policy", "main:agentic/orchestrator/policy.yaml")`, or `bundled`."""
    warnings: tuple[str, ...]


def hash_of(policy: Policy, gates: Gates, agents: Agents) -> str:
    """Return the `hash` of a configuration."""
    whole = msgspec.to_builtins({"policy": policy, "gates": gates, "agents": agents})
    return sha256_hex(canonical_json(whole))
