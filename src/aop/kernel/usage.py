"""What the turns of workers cost, as they report it and summed up; what nobody reported is unknown, and never zero."""

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import FeatureId
from aop.kernel.documents import Document
from aop.kernel.people_models import CostRules
from aop.kernel.questions import RAISE, Question
from aop.kernel.record import Snapshot, Transaction

Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Dollars = Annotated[float, Meta(ge=0, le=10**6)]
BLIND_TURNS = 3
"""So many turns that report nothing are enough to see that a cap can never be noticed."""


class Usage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a turn cost, as the provider reports it; what it does not report is None, not zero."""

    input_tokens: Tokens | None = None
    """All tokens that the model read."""
    output_tokens: Tokens | None = None
    """All tokens that the model wrote."""
    cached_input_tokens: Tokens | None = None
    """How many of the input tokens came from a cache."""
    cost_usd: Dollars | None = None
    """What the turn cost, in US dollars."""


# `gc=False`: a dashboard makes thousands of these, which can hold no cycle, and need not be searched for any.
class Sum(Struct, frozen=True, kw_only=True, gc=False):
    """One figure over several turns."""

    known: int | float | None = None
    """What the turns that reported it add up to; null when none did."""
    unknown_turns: int = 0
    """How many turns did not report it."""

    def and_also(self, other: Self) -> Self:
        """Return both together."""
        figures = [figure for figure in (self.known, other.known) if figure is not None]
        # Prices are decimal: without rounding, ten turns of ten cents are less than a dollar.
        known = round(sum(figures), 9) if figures else None
        return type(self)(known=known, unknown_turns=self.unknown_turns + other.unknown_turns)


class Spending(Struct, frozen=True, kw_only=True, gc=False):
    """What some turns cost together."""

    turns: int = 0
    """How many turns were taken."""
    input_tokens: Sum = Sum()
    output_tokens: Sum = Sum()
    cached_input_tokens: Sum = Sum()
    cost_usd: Sum = Sum()


NOTHING = Spending()


class FeatureUsage(Document, frozen=True, kw_only=True):
    """What the turns on one feature cost so far, by role and by run."""

    kind: ClassVar[str] = "usage"

    feature_id: FeatureId
    roles: Mapping[str, Spending] = {}
    runs: Mapping[str, Spending] = {}


class OpenTurn(Document, frozen=True, kw_only=True):
    """A turn that was begun and not counted yet; if nobody takes it any more, its process was killed."""

    kind: ClassVar[str] = "open_turn"

    turn: str
    feature_id: FeatureId
    worker: Literal["orchestrator", "planner", "builder", "qa", "swe"]
    run: str
    provider: str
    model: str | None
    began_at: str


class Overrun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cap that is reached, or that cannot be kept because nobody reports what it is about."""

    scope: Literal["feature", "run"]
    figure: Literal["usd", "tokens"]
    cap: float
    spent: float | None
    about: str
    """The same for every feature that the cap stops: they ask one question."""


# --- sums ------------------------------------------------------------------------------------------


def of_turn(usage: Usage | None) -> Spending:
    """Return what one turn cost."""
    said = usage or Usage()
    figures = {name: getattr(said, name) for name in Usage.__struct_fields__}
    sums = {name: Sum(known=value, unknown_turns=int(value is None)) for name, value in figures.items()}
    return Spending(turns=1, **sums)


def together(spendings: Iterable[Spending]) -> Spending:
    """Return what several cost together."""
    total = NOTHING
    for each in filter(_has_turns, spendings):
        sums = {name: getattr(total, name).and_also(getattr(each, name)) for name in Usage.__struct_fields__}
        total = Spending(turns=total.turns + each.turns, **sums)
    return total


def _has_turns(spending: Spending) -> bool:
    return spending.turns > 0


def with_turn(known: FeatureUsage, role: str, run: str, usage: Usage | None) -> FeatureUsage:
    """Return what a feature cost after one more turn."""
    turn = of_turn(usage)
    return msgspec.structs.replace(
        known,
        version=known.version + 1,
        roles={**known.roles, role: together([known.roles.get(role, NOTHING), turn])},
        runs={**known.runs, run: together([known.runs.get(run, NOTHING), turn])},
    )


def _without_feature(known: FeatureUsage) -> FeatureUsage:
    """Return what stays when a feature is deleted: what its runs cost."""
    return msgspec.structs.replace(known, version=known.version + 1, roles={})


def forget_turns(tx: Transaction, feature_id: FeatureId) -> None:
    """Forget what is open of a feature that is no more; what it cost still counts for its runs."""
    for turn in [turn for turn in tx.all(OpenTurn) if turn.feature_id == feature_id]:
        tx.remove(OpenTurn, turn.turn)
    usage = tx.get(FeatureUsage, feature_id)
    if usage is not None:
        tx.put(_without_feature(usage), feature_id)


def spent_on(usage: FeatureUsage | None) -> Spending:
    """Return what a feature cost, all roles together."""
    return NOTHING if usage is None else together(usage.roles.values())


def spent_in(run: str, usages: Iterable[FeatureUsage]) -> Spending:
    """Return what a run cost, all its features together."""
    return together(usage.runs[run] for usage in usages if run in usage.runs)


def told(spending: Spending) -> str:
    """Say it in a few words; nothing if there was no turn."""
    if not spending.turns:
        return ""
    money, tokens = spending.cost_usd, tokens_of(spending)
    words = [f"{spending.turns} turn{'s' if spending.turns > 1 else ''}"]
    words.append("cost unknown" if money.known is None else f"{money.known:.4f} USD{_besides(money)}")
    words.append("tokens unknown" if tokens.known is None else f"{tokens.known:.0f} tokens{_besides(tokens)}")
    return ", ".join(words)


def _besides(figure: Sum) -> str:
    return f" and {figure.unknown_turns} unknown" if figure.unknown_turns else ""


def tokens_of(spending: Spending) -> Sum:
    """Return input and output tokens together; a turn that reports only one of them counts as unknown."""
    both = spending.input_tokens.and_also(spending.output_tokens)
    unknown = max(spending.input_tokens.unknown_turns, spending.output_tokens.unknown_turns)
    return Sum(known=both.known, unknown_turns=unknown)


# --- caps ------------------------------------------------------------------------------------------


def overrun(view: Snapshot, rules: CostRules, feature_id: FeatureId, run: str) -> Overrun | None:
    """Return the cap that keeps a feature from another turn in a run, or None."""
    if not any(getattr(rules, name) for name in CostRules.__struct_fields__):
        return None
    feature = spent_on(view.get(FeatureUsage, feature_id))
    whole_run = spent_in(run, view.all(FeatureUsage))
    raised = [each.about for each in view.all(Question) if each.answer == RAISE]
    caps: list[tuple[Literal["feature", "run"], Literal["usd", "tokens"], float, Sum]] = [
        ("feature", "usd", rules.max_usd_per_feature, feature.cost_usd),
        ("feature", "tokens", rules.max_tokens_per_feature, tokens_of(feature)),
        ("run", "usd", rules.max_usd_per_run, whole_run.cost_usd),
        ("run", "tokens", rules.max_tokens_per_run, tokens_of(whole_run)),
    ]
    for scope, figure, cap, spent in caps:
        about = f"cost:{scope}:{feature_id if scope == 'feature' else run}:{figure}"
        # Each yes of a person allows as much again.
        if cap and _is_reached(cap * (1 + raised.count(about)), spent, is_raised=about in raised):
            allowed = cap * (1 + raised.count(about))
            return Overrun(scope=scope, figure=figure, cap=allowed, spent=spent.known, about=about)
    return None


def left_of_caps(view: Snapshot, rules: CostRules, feature_id: FeatureId) -> tuple[float | None, int | None]:
    """Return the dollars and the tokens that a feature may still use, each None where there is no cap."""
    spent = spent_on(view.get(FeatureUsage, feature_id))
    raised = [each.about for each in view.all(Question) if each.answer == RAISE]

    def left(cap: float, figure: str, used: Sum) -> float | None:
        times = 1 + raised.count(f"cost:feature:{feature_id}:{figure}")
        return max(0.0, cap * times - (used.known or 0)) if cap else None

    tokens = left(rules.max_tokens_per_feature, "tokens", tokens_of(spent))
    return left(rules.max_usd_per_feature, "usd", spent.cost_usd), None if tokens is None else int(tokens)


def _is_reached(allowed: float, spent: Sum, *, is_raised: bool) -> bool:
    if spent.known is None:
        return spent.unknown_turns >= BLIND_TURNS and not is_raised
    return spent.known >= allowed
