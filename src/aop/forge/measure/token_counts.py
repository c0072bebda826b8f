"""Token counts: briefs, tool definitions, fetched parts, generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.kernel.ports.tokenizer import Tokenizer

FIXED_CONTEXT_LIMIT = 6_000
"""What a role is sent before it asks for anything: its brief and its tools (FORGE-064, 108)."""


class RoleTokens(Struct, frozen=True, kw_only=True):
    """What one role is sent."""

    brief: int
    """Its brief."""
    tools: int
    """The definitions of its tools, as `tools/list` sends them."""
    contracts: int
    """The parts of contracts that it fetched, outlines included."""
    fetches: int
    """How many parts it fetched."""

    @property
    def fixed(self) -> int:
        """Return what the role is sent before it asks for anything."""
        return self.brief + self.tools


class LoopTokens(Struct, frozen=True, kw_only=True):
    """All requests of loops; what is sent again counts again."""

    requests: int = 0
    """How many requests were sent."""
    sent: int | None = None
    """Their tokens together; null where they were not counted."""
    cached: int | None = None
    """The part of `sent` that a request before had in the same place."""
    reported_input: int | None = None
    """What the providers reported as input, cached or not; null where they report nothing."""
    reported_cached: int | None = None
    """What they reported as read from their cache."""
    reported_output: int | None = None
    """What they reported as output."""


class ContractGeneration(Struct, frozen=True, kw_only=True):
    """What writing one contract took, and what it would have taken by snowball."""

    contract_type: str
    """The contract."""
    way: str
    """`tools` or `snowball`."""
    requests: int
    """How many requests were sent."""
    sent: int | None
    """Their tokens together; null where they were not counted."""
    snowball: int | None
    """The tokens of the one request with everything in it; null where that cannot be computed any longer."""


def role_tokens(
    tokenizer: Tokenizer, brief: str, definitions: Sequence[Mapping[str, Json]], fetched: Sequence[str]
) -> RoleTokens:
    """Count what a role is sent."""
    return RoleTokens(
        brief=tokenizer.count(brief),
        tools=tokenizer.count(definitions_text(definitions)),
        contracts=sum(map(tokenizer.count, fetched)),
        fetches=len(fetched),
    )


def definitions_text(definitions: Sequence[Mapping[str, Json]]) -> str:
    """Return tool definitions as they go over the wire."""
    return msgspec.json.encode(definitions).decode()


def loop_tokens(used: Iterable[Mapping[str, Json]]) -> LoopTokens:
    """Add up what the record holds of the loops of a generation."""
    rows = list(used)
    return LoopTokens(
        requests=_sum(rows, "requests"),
        sent=_sum_if_known(rows, "sent"),
        cached=_sum_if_known(rows, "cached"),
        reported_input=_sum_if_known(rows, "input_tokens"),
        reported_cached=_sum_if_known(rows, "cache_read_tokens"),
        reported_output=_sum_if_known(rows, "output_tokens"),
    )


def _sum_if_known(rows: Sequence[Mapping[str, Json]], name: str) -> int | None:
    return None if not rows or any(row.get(name) is None for row in rows) else _sum(rows, name)


def _sum(rows: Sequence[Mapping[str, Json]], name: str) -> int:
    return sum(value for row in rows if isinstance(value := row.get(name), int))
