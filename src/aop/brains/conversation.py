"""Conversation with a model: requests and replies, for every provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

Thinking: TypeAlias = Literal["off", "low", "medium", "high"]


class TokenCounts(Struct, frozen=True, kw_only=True):
    """Tokens that the provider reports; None is not reported."""

    input_tokens: int | None = None
    """All input tokens, cached or not."""
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int | None:
        """Return the sum of input and output, if both are known."""
        return _sum(self.input_tokens, self.output_tokens)

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the sum; unknown plus anything is unknown."""
        return TokenCounts(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


NO_TOKENS = TokenCounts(input_tokens=0, output_tokens=0)


class Offer(Struct, frozen=True, kw_only=True):
    """A tool that a model may call."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON Schema of its arguments: an object."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that the model requests, with the arguments as it wrote them."""

    call_id: str
    name: str
    arguments: str


class PassedOver(Struct, frozen=True, kw_only=True):
    """A model that was asked before the one that answered, and the code of its refusal."""

    model: str
    code: str


class UserText(Struct, frozen=True, kw_only=True, tag="said"):
    """Text for the model."""

    text: str


class Observation(Struct, frozen=True, kw_only=True, tag="observed"):
    """The result of a tool call."""

    call_id: str
    name: str
    text: str
    ok: bool


class Reply(Struct, frozen=True, kw_only=True, tag="replied"):
    """The reply of a model: text, calls, or both."""

    model: str
    """The model that was asked, as `provider:model`."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    cut_off: bool = False
    """Whether it reached its token limit; it must not be used then."""
    usage: TokenCounts = TokenCounts()
    kept: str = ""
    """The adapter's data for the next request, such as signatures of thoughts; opaque to others."""
    passed_over: tuple[PassedOver, ...] = ()


Turn: TypeAlias = UserText | Reply | Observation


class Request(Struct, frozen=True, kw_only=True):
    """One exchange with a model: the conversation so far, and what it may do next."""

    instructions: str
    turns: tuple[Turn, ...]
    tools: tuple[Offer, ...] = ()
    answer: Offer | None = None
    """The tool whose arguments are the answer; without other tools it is the only way to reply."""
    text_allowed: bool = False
    """Whether a reply without a call is allowed."""
    max_output_tokens: int
    timeout_seconds: float
    thinking: Thinking | None = None
    """The reasoning effort; None is the model's default."""
    fence: str = ""
    """The fence of the data in this conversation, which recordings leave out."""


class Model(Protocol):
    """A model, a list of them, a script or a recording."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the models that may answer, as `provider:model`, in the order of asking."""

    async def reply(self, request: Request) -> Reply:
        """Answer once. Raises: one of the refusals of asking a model in `aop.core.errors`."""


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
