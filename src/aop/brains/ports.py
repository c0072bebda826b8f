"""Brain port: one structured answer, or a loop with tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from aop.brains.budgets import Limit, LoopLimits, LoopUsage
from aop.brains.conversation import Offer, PassedOver, Request, TokenCounts, Turn
from aop.brains.prompts import Prompt
from aop.core.errors import Json

T = TypeVar("T", bound=Struct)

FINISH = "hand_in_result"


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    """A valid answer and its usage."""

    value: T
    model: str
    usage: TokenCounts
    cost_usd: float | None
    """None: the price or the tokens are unknown."""
    seconds: float
    calls: int = 1
    """The number of requests; more than one only if repairs are allowed."""
    passed_over: tuple[PassedOver, ...] = ()


class News(Struct, frozen=True, kw_only=True):
    """What a loop is told from outside before its next reply."""

    messages: tuple[str, ...] = ()
    """Texts that the model is sent."""
    conversation: tuple[Turn, ...] | None = None
    """The conversation so far in fewer words; None leaves it as it is."""
    ended: bool = False
    """Whether the loop ends here, as if the model had only talked."""


Steering: TypeAlias = Callable[[Sequence[Turn], LoopUsage], Awaitable[News]]
"""Looks at a conversation before each reply, the first included. Anything that it raises ends the loop.

Its work is a step, `news_N` before `reply_N`: after an interruption the loop gets the same news, and it is not asked.
"""


class Mission(Struct, Generic[T], frozen=True, kw_only=True):
    """The task of a loop and the shape of its result."""

    prompt: Prompt
    result: type[T]
    """The shape of the result; handing it in ends the loop."""
    text_allowed: bool = False
    """Whether a reply without a call ends the loop too; otherwise the model is asked to call a tool."""
    finish: str = FINISH
    """The name of the tool that hands in the result; empty if only the steering ends the loop."""
    check: Callable[[T], None] | None = None
    """Judges a result, purely; the Refusal that it raises is shown to the model, and the loop goes on."""
    from_text: Callable[[str], T | None] | None = None
    """Reads a reply without a call as a result, purely; None if it is not one, such as an apology."""
    watch: Callable[[Request], None] | None = None
    """Receives each request of the loop, those before an interruption included."""
    steering: Steering | None = None
    """Leads the loop from outside: a reply without a call, and one that was cut off, do not end it."""


class Tools(Protocol):
    """The tools that a model may call in a loop."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that the model is shown."""

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call an offered tool, and return its answer.

        Raises: Refusal, which the model is shown; anything else ends the loop.
        """


class Finished(Struct, Generic[T], frozen=True, kw_only=True, tag="finished"):
    """The model handed in a valid result."""

    value: T
    spent: LoopUsage


class Talked(Struct, frozen=True, kw_only=True, tag="talked"):
    """The model replied with text, possibly empty, and called no tool."""

    text: str
    spent: LoopUsage


class LimitReached(Struct, frozen=True, kw_only=True, tag="limit_reached"):
    """A limit was reached before there was a result."""

    limit: Limit
    spent: LoopUsage


class ModelFailed(Struct, frozen=True, kw_only=True, tag="model_failed"):
    """The model failed; `error` is the refusal."""

    error: Mapping[str, Any]
    spent: LoopUsage


Outcome: TypeAlias = Finished[T] | Talked | LimitReached | ModelFailed


class Replied(Struct, frozen=True, kw_only=True, tag="replied"):
    """A model replied."""

    model: str
    text: str
    usage: TokenCounts
    cost_usd: float | None
    passed_over: tuple[PassedOver, ...] = ()


class Called(Struct, frozen=True, kw_only=True, tag="called"):
    """A tool is about to be called for the model."""

    tool: str
    arguments: str


class Observed(Struct, frozen=True, kw_only=True, tag="observed"):
    """The model is shown the result of a call."""

    tool: str
    ok: bool
    text: str


Journal: TypeAlias = Callable[[Replied | Called | Observed], None]
"""Receives each event as it happens, without secrets."""

Once: TypeAlias = Callable[[str, Callable[[], Awaitable[Json]]], Awaitable[Json]]
"""Runs a named step once and returns its result; a step that was already done is not repeated.

A loop runs the steps `reply_1`, `call_1_1`, `call_1_2`, `reply_2` ...: after an interruption it continues where it was,
with the usage of that time. A loop with steering runs `news_1` before `reply_1`, and so on.
"""


async def run_now(_name: str, do: Callable[[], Awaitable[Json]]) -> Json:
    """Run the step: for a loop that is never resumed."""
    return await do()


class Brain(Protocol):
    """Answers questions and runs loops."""

    async def generate_structured(self, prompt: Prompt, shape: type[T], *, repairs: int = 0) -> Answer[T]:
        """Ask, and return a valid answer; an invalid one is asked for again up to `repairs` times.

        Raises: ModelAnswerInvalid, or another refusal of asking a model.
        """

    async def run_agentic_loop(
        self, mission: Mission[T], tools: Tools, limits: LoopLimits, journal: Journal, *, once: Once = run_now
    ) -> Outcome[T]:
        """Let a model work with tools until it hands in a result or a limit is reached.

        Raises: ModelPriceUnknown, before the first request, if a cost limit cannot be enforced.
        """
