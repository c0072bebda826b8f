"""Spending: reported costs of turns, summed up; an unreported cost is unknown."""

from collections.abc import Iterable
from typing import Literal

from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.kernel.config.people import CostRules
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.questions import RAISE, UNCAPPED, Question
from aop.kernel.record.documents.usage import FIGURES, NOTHING, FeatureUsage, OpenTurn, Overrun, Spending, Sum, Usage
from aop.kernel.record.port import Snapshot, Transaction

SELF_REPORTED = "self-reported"
"""The mark of figures that an agent itself reports, wherever they are shown."""
ESTIMATED = "partly estimated"
"""The mark of figures that a meter estimated in part, for lack of a report."""
PRICE_OF = "price:"
"""The topic of the one question about a model without a price, before its name."""
BLIND_TURNS = 3
"""So many turns that report nothing are enough to see that a cap can never be noticed."""


def turn_spending(usage: Usage | None) -> Spending:
    """Return what one turn cost."""
    said = usage or Usage()
    sums = {name: Sum(known=value, unknown_turns=int(value is None)) for name, value in said.figures.items()}
    return Spending(turns=1, self_reported_turns=int(said.self_reported), estimated_turns=int(said.estimated), **sums)


def total_of(spendings: Iterable[Spending]) -> Spending:
    """Return what several cost together."""
    total = NOTHING
    for each in spendings:
        if each.turns:
            sums = {name: getattr(total, name).and_also(getattr(each, name)) for name in FIGURES}
            total = Spending(
                turns=total.turns + each.turns,
                self_reported_turns=total.self_reported_turns + each.self_reported_turns,
                estimated_turns=total.estimated_turns + each.estimated_turns,
                **sums,
            )
    return total


def with_turn(known: FeatureUsage, role: str, run: str, usage: Usage | None) -> FeatureUsage:
    """Return what a feature cost after one more turn."""
    turn = turn_spending(usage)
    return revise(
        known,
        roles={**known.roles, role: total_of([known.roles.get(role, NOTHING), turn])},
        runs={**known.runs, run: total_of([known.runs.get(run, NOTHING), turn])},
    )


def forget_turns(tx: Transaction, feature_id: FeatureId) -> None:
    """Forget the open turns of a deleted feature; its cost still counts for its runs."""
    for turn in [turn for turn in tx.all(OpenTurn) if turn.feature_id == feature_id]:
        tx.remove(OpenTurn, turn.turn)
    usage = tx.get(FeatureUsage, feature_id)
    if usage is not None:
        tx.put(revise(usage, roles={}), feature_id)


def spent_on(usage: FeatureUsage | None) -> Spending:
    """Return what a feature cost, all roles together."""
    return NOTHING if usage is None else total_of(usage.roles.values())


def spent_in(run: str, usages: Iterable[FeatureUsage]) -> Spending:
    """Return what a run cost, all its features together."""
    return total_of(usage.runs[run] for usage in usages if run in usage.runs)


def spending_text(spending: Spending) -> str:
    """Say it in a few words; nothing if there was no turn."""
    if not spending.turns:
        return ""
    money, tokens = spending.cost_usd, tokens_of(spending)
    words = [count(spending.turns, "turn")]
    words.append("cost unknown" if money.known is None else f"{money.known:.4f} USD{_unknown_text(money)}")
    words.append("tokens unknown" if tokens.known is None else f"{tokens.known:.0f} tokens{_unknown_text(tokens)}")
    return ", ".join([*words, *marks_of(spending)])


def marks_of(spending: Spending) -> tuple[str, ...]:
    """Return the marks that figures carry wherever they are shown."""
    marks = {SELF_REPORTED: spending.self_reported_turns, ESTIMATED: spending.estimated_turns}
    return tuple(mark for mark, turns in marks.items() if turns)


def _unknown_text(figure: Sum) -> str:
    return f" and {figure.unknown_turns} unknown" if figure.unknown_turns else ""


def tokens_of(spending: Spending) -> Sum:
    """Return input and output tokens together; a turn that reports only one of them counts as unknown."""
    both = spending.input_tokens.and_also(spending.output_tokens)
    unknown = max(spending.input_tokens.unknown_turns, spending.output_tokens.unknown_turns)
    return Sum(known=both.known, unknown_turns=unknown)


def unpriced_overrun(view: Snapshot, rules: CostRules, model: str) -> Overrun | None:
    """Return the cap of cost that cannot be kept because a model has no price; None if a person allowed that."""
    scope: Literal["feature", "run"] = "feature" if rules.max_usd_per_feature else "run"
    cap = rules.max_usd_per_feature or rules.max_usd_per_run
    if not cap or not model or model in uncapped_models(view):
        return None
    return Overrun(scope=scope, figure="usd", cap=cap, spent=None, about=f"{PRICE_OF}{model}", model=model)


def uncapped_models(view: Snapshot) -> frozenset[str]:
    """Return the models without a price that a person lets work without a cap on their cost."""
    answered = (each.about for each in view.all(Question) if each.answer == UNCAPPED)
    return frozenset(about.removeprefix(PRICE_OF) for about in answered if about.startswith(PRICE_OF))


def overrun(view: Snapshot, rules: CostRules, feature_id: FeatureId, run: str, *, unpriced: str = "") -> Overrun | None:
    """Return the cap that keeps a feature from another turn in a run, or None; its model may have no price."""
    if not any(getattr(rules, name) for name in CostRules.__struct_fields__):
        return None
    withheld = unpriced_overrun(view, rules, unpriced)
    if withheld is not None:
        return withheld
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
        allowed = cap * (1 + raised.count(about))
        is_uncapped = bool(unpriced) and figure == "usd"
        if cap and not is_uncapped and _is_reached(allowed, spent, is_raised=about in raised):
            return Overrun(scope=scope, figure=figure, cap=allowed, spent=spent.known, about=about)
    return None


def reaches_cap(usage: Usage, *, dollars: float | None, tokens: int | None) -> bool:
    """Tell whether one turn has used up the dollars or the tokens that were left; None means no cap."""
    used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    is_over_cost = dollars is not None and usage.cost_usd is not None and usage.cost_usd >= dollars
    return is_over_cost or (tokens is not None and used >= tokens)


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
