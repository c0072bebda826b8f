"""What goes to a model and what comes back, whichever model it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

Thinking: TypeAlias = Literal["off", "low", "medium", "high"]


class TokenCounts(Struct, frozen=True, kw_only=True):
    """Tokens as the provider reports them; what it does not report is None, not zero."""

    input_tokens: int | None = None
    """All that was read, cached or not."""
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int | None:
        """Return what was read and written, if both are known."""
        return _sum(self.input_tokens, self.output_tokens)

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the tokens of both; unknown and anything is unknown."""
        return TokenCounts(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


NO_TOKENS = TokenCounts(input_tokens=0, output_tokens=0)


class Offer(Struct, frozen=True, kw_only=True):
    """A tool as a model sees it: calling it is all that a model can do."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON Schema of its arguments: an object."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool that the model wants to be called, with the arguments as it wrote them."""

    call_id: str
    name: str
    arguments: str


class PassedOver(Struct, frozen=True, kw_only=True):
    """A model that was asked before the one that answered, and the code of its refusal."""

    model: str
    code: str


class UserText(Struct, frozen=True, kw_only=True, tag="said"):
    """What we tell the model."""

    text: str


class Observation(Struct, frozen=True, kw_only=True, tag="observed"):
    """What a tool answered to a call of the model."""

    call_id: str
    name: str
    text: str
    ok: bool


class Reply(Struct, frozen=True, kw_only=True, tag="replied"):
    """What a model said: text, calls, or both."""

    model: str
    """The model that was asked, as `provider:model`."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    cut_off: bool = False
    """Whether it reached its token limit before it was complete; what it says is not to be used then."""
    usage: TokenCounts = TokenCounts()
    kept: str = ""
    """What the adapter wants to see again with the next request (signatures of thoughts); nobody else reads it."""
    passed_over: tuple[PassedOver, ...] = ()


Turn: TypeAlias = UserText | Reply | Observation


class Request(Struct, frozen=True, kw_only=True):
    """One exchange with a model: the conversation so far, and what it may do next."""

    instructions: str
    turns: tuple[Turn, ...]
    tools: tuple[Offer, ...] = ()
    answer: Offer | None = None
    """The tool whose arguments are the answer; where there are no other tools, it is the only way to reply."""
    text_allowed: bool = False
    """Whether a reply without any call will do."""
    max_output_tokens: int
    timeout_seconds: float
    thinking: Thinking | None = None
    """How hard to think before replying; None is the model's own default, and so it is where it has no choice."""
    fence: str = ""
    """What fences the data in this conversation, so that a recording can tell it from what was said."""


class Model(Protocol):
    """A model, a list of them, a script or a recording."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the models that may answer, as `provider:model`, in the order of asking."""

    async def reply(self, request: Request) -> Reply:
        """Answer once.

        Raises: one of the refusals of asking a model in `aop.core.errors`.
        """


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
