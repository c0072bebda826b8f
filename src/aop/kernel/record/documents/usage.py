"""Usage documents: tokens and dollars, per turn, feature and run."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import Document

Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Dollars = Annotated[float, Meta(ge=0, le=10**6)]
Worker = Literal[
    "orchestrator", "planner", "builder", "qa", "swe", "forge_builder", "scout", "coder", "auditor", "fixer"
]
"""The roles whose turns cost something."""


class Usage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cost of a turn, as the provider reports it; an unreported value is None, not zero."""

    input_tokens: Tokens | None = None
    """All tokens that the model read."""
    output_tokens: Tokens | None = None
    """All tokens that the model wrote."""
    cached_input_tokens: Tokens | None = None
    """The number of input tokens that came from a cache."""
    cost_usd: Dollars | None = None
    """The cost of the turn, in US dollars."""
    self_reported: bool = False
    """Whether the agent itself reports this, and no meter has counted it."""
    estimated: bool = False
    """Whether tokens of an answer without a report were estimated from its length."""

    @property
    def figures(self) -> Mapping[str, int | float | None]:
        """Return the figures by their names."""
        return {name: getattr(self, name) for name in FIGURES}


class Trouble(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The trouble of a model's provider that ended a turn, as the provider told it."""

    kind: Annotated[str, Meta(max_length=60)]
    """The code of the refusal that names it."""
    status: Annotated[int, Meta(ge=0, le=999)] = 0
    """The HTTP status; 0 without one."""
    words: Annotated[str, Meta(max_length=500)] = ""
    """The provider's own words, shortened and without secrets."""
    retry_after_seconds: float | None = None
    """The seconds after which a request may be sent again, if it told any."""
    retry_at: str = ""
    """The moment in UTC; empty if only the seconds are known, or nothing."""


FIGURES = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")


# `gc=False`: a dashboard makes thousands of these, which can hold no cycle, and need not be searched for any.
class Sum(Struct, frozen=True, kw_only=True, gc=False):
    """One figure over several turns."""

    known: int | float | None = None
    """The sum over the turns that reported it; null if none did."""
    unknown_turns: int = 0
    """The number of turns that did not report it."""

    def and_also(self, other: Self) -> Self:
        """Return both together."""
        figures = [figure for figure in (self.known, other.known) if figure is not None]
        # Prices are decimal: without rounding, ten turns of ten cents are less than a dollar.
        known = round(sum(figures), 9) if figures else None
        return type(self)(known=known, unknown_turns=self.unknown_turns + other.unknown_turns)


class Spending(Struct, frozen=True, kw_only=True, gc=False):
    """The cost of several turns together."""

    turns: int = 0
    """The number of turns."""
    input_tokens: Sum = Sum()
    output_tokens: Sum = Sum()
    cached_input_tokens: Sum = Sum()
    cost_usd: Sum = Sum()
    self_reported_turns: int = 0
    """The number of turns whose figures the agents themselves reported."""
    estimated_turns: int = 0
    """The number of turns whose figures are partly estimated."""


NOTHING = Spending()


class FeatureUsage(Document, frozen=True, kw_only=True):
    """The cost of the turns on one feature so far, by role and by run."""

    kind: ClassVar[str] = "usage"

    feature_id: FeatureId
    roles: Mapping[str, Spending] = {}
    runs: Mapping[str, Spending] = {}


class OpenTurn(Document, frozen=True, kw_only=True):
    """A turn that was begun and not counted yet; without a live owner, its process was killed."""

    kind: ClassVar[str] = "open_turn"

    turn: str
    feature_id: FeatureId
    worker: Worker
    run: str
    provider: str
    model: str | None
    began_at: str
    on_worker: str | UnsetType = UNSET
    """The worker of another machine that takes it; left out where none does."""


class Overrun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cap that is reached, or that cannot be kept because the figures are not reported."""

    scope: Literal["feature", "run"]
    figure: Literal["usd", "tokens"]
    cap: float
    spent: float | None
    about: str
    """The same for every feature that the cap stops: they ask one question."""
    model: str = ""
    """The model that has no price, so that the cap cannot be kept; empty for any other cause."""
