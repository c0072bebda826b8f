"""Asking a model, as the products see it: one structured answer, or a loop in which Python carries out the calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from aop.brains.budgets import Limit, LoopLimits, Spent
from aop.brains.conversation import Offer, PassedOver, TokenCounts
from aop.brains.prompts import Prompt
from aop.core.errors import Json

T = TypeVar("T", bound=Struct)


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    """A valid answer, and what it took."""

    value: T
    model: str
    usage: TokenCounts
    cost_usd: float | None
    """None: the model has no known price, or did not report its tokens."""
    seconds: float
    calls: int = 1
    """How often a model was asked; more than once only where repairs were allowed."""
    passed_over: tuple[PassedOver, ...] = ()


class Mission(Struct, Generic[T], frozen=True, kw_only=True):
    """What a loop is for, and how the model says that it is done."""

    prompt: Prompt
    result: type[T]
    """What the model hands in; handing it in ends the loop."""
    text_allowed: bool = False
    """Whether a reply without any call ends the loop too; otherwise the model is made, or told, to call something."""


class Tools(Protocol):
    """The tools that a model may call in a loop, and the one place where they are called."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that the model is shown."""

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool that was offered, and return what it answers.

        Raises: Refusal, which the model is shown; anything else ends the loop.
        """


# --- how a loop ends -----------------------------------------------------------------------------


class Finished(Struct, Generic[T], frozen=True, kw_only=True, tag="finished"):
    """The model handed in a valid result."""

    value: T
    spent: Spent


class Talked(Struct, frozen=True, kw_only=True, tag="talked"):
    """The model called nothing, although it was told to unless text was allowed; the text may be empty."""

    text: str
    spent: Spent


class LimitReached(Struct, frozen=True, kw_only=True, tag="limit_reached"):
    """Something ran out before there was a result."""

    limit: Limit
    spent: Spent


class ModelFailed(Struct, frozen=True, kw_only=True, tag="model_failed"):
    """No model answered any more; the error is a refusal's."""

    error: Mapping[str, Any]
    spent: Spent


Outcome: TypeAlias = Finished[T] | Talked | LimitReached | ModelFailed

# --- what a journal is told ----------------------------------------------------------------------


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
    """The model is shown what came of a call."""

    tool: str
    ok: bool
    text: str


Journal: TypeAlias = Callable[[Replied | Called | Observed], None]
"""Told of each event as it happens, without secrets."""

Once: TypeAlias = Callable[[str, Callable[[], Awaitable[Json]]], Awaitable[Json]]
"""Does what is named and returns what came of it; what was done before under that name is returned, and not done again.

A loop asks for `reply_1`, `call_1_1`, `call_1_2`, `reply_2` ..., and takes all that it knows from there: one that was
interrupted is taken up where it was, with what it had used by then.
"""


async def run_now(_name: str, do: Callable[[], Awaitable[Json]]) -> Json:
    """Do it: for a loop that nobody takes up again."""
    return await do()


class Brain(Protocol):
    """Something that can be asked."""

    async def generate_structured(self, prompt: Prompt, shape: type[T], *, repairs: int = 0) -> Answer[T]:
        """Ask once and return a valid answer; an invalid one is asked for again as often as `repairs` allows.

        Raises: ModelAnswerInvalid, or another refusal of asking a model.
        """

    async def run_agentic_loop(
        self, mission: Mission[T], tools: Tools, limits: LoopLimits, journal: Journal, *, once: Once = run_now
    ) -> Outcome[T]:
        """Let a model work with tools until it hands in a result or a limit is reached.

        Raises: ModelPriceUnknown, before anything is asked, if there is a cost limit that could not be kept.
        """
